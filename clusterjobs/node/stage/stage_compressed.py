"""Read what gzip, bzip2, xz or zstd has compressed, to the end and with all checksums.

Such a file is one or more compressed streams. What follows the last one must be zeros, as on tapes:
anything else may be a damaged stream. This module knows nothing of what was compressed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import tempfile
import zlib
from typing import IO, Any, Iterator

from stage_log import StageError, printable
from stage_member import ArchiveError

_BUFFER = 1 << 16
_KINDS = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\0"}
_ZSTD, _ZSTD_SKIPPABLE = b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"  # pzstd begins with the second
_XZ_UNIT = 4  # bytes: xz demands that its padding is a multiple of it


@contextlib.contextmanager
def open_compressed(file: IO[bytes]) -> Iterator[Any]:
    """The contents of a file, which may be compressed. Raises ArchiveError."""
    start = file.read(8)
    file.seek(0)
    if start.startswith(_ZSTD) or (start[1:4] == _ZSTD_SKIPPABLE and start[0] >> 4 == 5):
        with _zstd(file) as output:
            yield output
        return
    kinds = [kind for kind, magic in _KINDS.items() if start.startswith(magic)]
    yield Decompressed(file, kinds[0]) if kinds else file


class Decompressed:
    """The contents of all streams of a compressed file."""

    def __init__(self, file: IO[bytes], kind: str) -> None:
        self._file, self._kind = file, kind
        self._waiting = b""  # the start of a stream that was read with the one before
        self._is_done = False
        self._stream: Any = _new_stream(kind)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, none only at the end. Raises ArchiveError."""
        while not self._is_done:
            if self._stream.eof:
                self._open_next()
                continue
            data = b""
            if self._stream.needs_input:
                data, self._waiting = self._waiting or self._file.read(_BUFFER), b""
            try:
                result = self._stream.decompress(data, size)
            except Exception as error:  # each module has errors of its own
                raise ArchiveError("damaged %s data: %s" % (self._kind, error)) from None
            if result:
                return bytes(result)
            if not data and self._stream.needs_input and not self._stream.eof:
                raise ArchiveError("ends in the middle of its %s data" % self._kind)
        return b""

    def _open_next(self) -> None:
        """Skip padding, and open the next stream if there is one."""
        rest, padding = self._stream.unused_data, 0
        while True:
            found = rest.lstrip(b"\0")
            padding += len(rest) - len(found)
            if found:
                break
            rest = self._file.read(_BUFFER)
            if not rest:
                break
        magic = _KINDS[self._kind]
        if found and len(found) < len(magic):
            found += self._file.read(_BUFFER)
        # gzip and bzip2 themselves do not look behind padding.
        if found and (not found.startswith(magic) or (padding and self._kind != "xz")):
            raise ArchiveError("has other bytes after the end of its %s data" % self._kind)
        if padding % _XZ_UNIT and self._kind == "xz":
            raise ArchiveError("has %d zero bytes after the end of its xz data" % padding)
        self._is_done = not found
        if found:
            self._waiting, self._stream = found, _new_stream(self._kind)


class _GzipStream:
    """zlib's object with the methods of bz2's and lzma's."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(16 + zlib.MAX_WBITS)  # 16: with gzip's header and CRC

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._object.unconsumed_tail

    def decompress(self, data: bytes, size: int) -> bytes:
        return self._object.decompress(self._object.unconsumed_tail + data, size)


@contextlib.contextmanager
def _zstd(file: IO[bytes]) -> Iterator[_ZstdOutput]:
    """The program zstd, for which Python 3.7 has no module. It ends with the block."""
    path = shutil.which("zstd")
    if path is None:
        what = "is compressed by zstd, and this node has no program zstd"
        raise ArchiveError(what, "install it, or pack the archive with gzip, bzip2 or xz")
    os.lseek(file.fileno(), 0, os.SEEK_SET)  # Python has read the first bytes
    command = [path, "-dcq"]
    with tempfile.TemporaryFile() as errors, subprocess.Popen(
        command, stdin=file, stdout=subprocess.PIPE, stderr=errors
    ) as program:
        try:
            yield _ZstdOutput(program, errors)
        finally:
            program.kill()


class _ZstdOutput:
    """What zstd writes; its exit code counts, too."""

    def __init__(self, program: Any, errors: IO[bytes]) -> None:
        self._program, self._errors = program, errors

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, none only at the end. Raises ArchiveError."""
        data: bytes = self._program.stdout.read(size)
        status = 0 if data else self._program.wait()
        if status < 0:  # by a lack of memory, for example: a retry can help
            raise StageError("zstd was killed by signal %d" % -status)
        if status:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="backslashreplace").strip()
            raise ArchiveError("damaged zstd data: %s" % printable(said or "no message"))
        return data


def _new_stream(kind: str) -> Any:
    if kind == "gzip":
        return _GzipStream()
    name = {"bzip2": "bz2", "xz": "lzma"}[kind]
    try:
        module: Any = importlib.import_module(name)
    except ImportError:  # a Python that was built without it
        what = "is compressed by %s, and python3 here has no module %s" % (kind, name)
        raise ArchiveError(what, "pack the archive with gzip") from None
    return (
        module.BZ2Decompressor() if kind == "bzip2" else module.LZMADecompressor(module.FORMAT_XZ)
    )
