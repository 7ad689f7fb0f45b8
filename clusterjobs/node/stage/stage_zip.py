"""Read the members of a zip archive, and demand that it is whole.

A zip describes each file twice: before its contents, and in the directory at its end. Python's
zipfile uses the directory, unzip both; here they must agree. Nothing is written here.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import time
import zipfile
import zlib
from typing import IO, Any, Iterator, Tuple, Type

from stage_log import printable
from stage_member import ArchiveError, Member, not_an_archive

_ERRORS: Tuple[Type[Exception], ...] = (
    zipfile.BadZipFile,
    EOFError,
    LookupError,
    OverflowError,
    RuntimeError,  # encrypted; NotImplementedError: compressed in a way that zipfile does not know
    ValueError,
    struct.error,
    zlib.error,
)
try:
    import lzma

    _ERRORS += (lzma.LZMAError,)
except ImportError:  # a Python that was built without it
    pass
ZIP_START = b"PK\3\4"
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_END_RECORD = struct.Struct("<4s4H2LH")
_FIELD = struct.Struct("<2H")  # the start of an extra field: kind, size
_SIZES_FOLLOW = 1 << 3  # a flag: checksum and sizes come after the contents
_UTF8_NAME = 1 << 11  # a flag
_UNIX = 3  # as the system that made the archive
_VERSION = 63  # of the format: the newest that is known
_ZIP64 = 0xFFFFFFFF  # the value of a size that is elsewhere
_MAX_LINK = 4096  # bytes: Linux's limit for a path


class ZipReader:
    """The members of a zip in the order of its directory. Raises ArchiveError."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        start = file.read(512)
        if not start.startswith((b"PK", b"MZ", b"\x7fELF", b"#!")):  # some unpack themselves
            raise not_an_archive("zip", start)
        with _reading():
            self._archive = zipfile.ZipFile(file)
            self._check_end_record()
        self._infos = self._archive.infolist()

    def unpacked_size(self) -> int:
        return sum(one.file_size for one in self._infos)

    def members(self) -> Iterator[Member]:
        for one in self._infos:
            with _reading():
                self._check_local_header(one)
                content = _Content(self._archive.open(one), one.filename)
                member = _member(one, content)
            yield member
            content.check_end()

    def _check_end_record(self) -> None:
        """The directory must have as many entries as the end of the archive says."""
        self._file.seek(-_END_RECORD.size - len(self._archive.comment), os.SEEK_END)
        record = _END_RECORD.unpack(self._file.read(_END_RECORD.size))
        count = len(self._archive.infolist())
        if record[1:3] not in ((0, 0), (0xFFFF, 0xFFFF)):
            raise ArchiveError("is one of several parts of an archive, or damaged at its end")
        if not {record[3], record[4]} <= {0xFFFF, count} or record[7] != len(self._archive.comment):
            raise ArchiveError("has a damaged end: %d entries of %d" % (count, record[4]))

    def _check_local_header(self, one: zipfile.ZipInfo) -> None:
        self._file.seek(one.header_offset)
        header = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        version, flags, method, _, _, crc, packed, size, name, extra = header[1:]
        same = (flags, method) == (one.flag_bits, one.compress_type) and version & 0xFF <= _VERSION
        if same and not flags & _SIZES_FOLLOW:
            sizes = (packed, one.compress_size), (size, one.file_size)
            same = crc == one.CRC and all(a in (b, _ZIP64) for a, b in sizes)
        self._file.seek(name, os.SEEK_CUR)
        if not same or not _are_extra_fields(self._file.read(extra)):
            what = "is damaged, or differs from the archive's directory"
            raise ArchiveError("the header of member %s %s" % (printable(one.filename), what))


class _Content:
    """The contents of a file; every error is a ArchiveError."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name

    def read(self, size: int) -> bytes:
        with _reading():
            return bytes(self._file.read(size))

    def check_end(self) -> None:
        """The checksum is compared when the end is read."""
        with _reading(), self._file:
            if self._file.read(1):
                raise ArchiveError("member %s is too long" % printable(self._name))


def _are_extra_fields(data: bytes) -> bool:
    while len(data) >= _FIELD.size:
        size = _FIELD.size + _FIELD.unpack_from(data)[1]
        if size > len(data):
            return False
        data = data[size:]
    return True


def _name(one: zipfile.ZipInfo) -> str:
    """The bytes of a name that was made on Unix: zipfile takes it for text of DOS."""
    if one.create_system != _UNIX or one.flag_bits & _UTF8_NAME:
        return one.filename
    return os.fsdecode(one.filename.encode("cp437"))


def _member(one: zipfile.ZipInfo, content: _Content) -> Member:
    attributes = one.external_attr >> 16
    mtime = int(time.mktime((*one.date_time, 0, 0, -1))) * 10**9
    kind = "folder" if one.is_dir() else "link" if stat.S_ISLNK(attributes) else "file"
    default = 0o755 if kind == "folder" else 0o644  # of an archive not made on Unix
    link = ""
    if kind == "link":
        if one.file_size > _MAX_LINK:
            raise ArchiveError("has a link of %d bytes" % one.file_size)
        link = os.fsdecode(content.read(one.file_size))
    mode = stat.S_IMODE(attributes) or default
    return Member(kind, _name(one), mode, mtime, one.file_size, content, link)


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """zipfile has many kinds of errors for a damaged archive."""
    try:
        yield
    except _ERRORS as error:
        raise ArchiveError(str(error) or type(error).__name__) from None
