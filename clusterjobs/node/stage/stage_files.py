"""Copy a single file or block, and verify it.

A file is copied in blocks. Each block is read back from the copy and compared, and its CRC-32 is
kept. CRC-32 detects accidental errors at several GB/s in Python; it does not protect from an
attacker. A copy gets the permissions and the time of its original.
"""

from __future__ import annotations

import errno
import os
import zlib
from typing import NamedTuple, Optional, Tuple

from stage_list import File, path_of
from stage_log import StageError, os_failure, printable

BLOCK = 32 << 20  # the unit in which large files are distributed, verified and resumed
BUFFER = 1 << 18  # stays in a core's cache while it is read, written and read back
# Used again for each block: new memory costs as much time as the copying.
_BUFFER, _READ_BACK = bytearray(BUFFER), bytearray(BUFFER)

# A row of the record: size, mtime, permissions and ctime of the original; mtime and ctime of the
# file in the target; checksums of its blocks.
Row = Tuple[int, int, int, int, int, int, Tuple[int, ...]]
# Added to a checksum if nothing was copied: the target or the partial copy has the block already.
IN_TARGET, IN_COPY = 1 << 32, 1 << 33

_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Task(NamedTuple):
    """A block to copy; size, time and permissions are those of the whole file."""

    name: str
    source: str
    copy: str
    existing: Optional[str]  # a file that may have the block already
    known: Optional[int]  # the checksum of the block, if it is recorded
    offset: int
    length: int
    size: int
    mtime: int
    mode: int
    ctime: int


# ------------------------------------------------------------------ small files


class SmallFiles:
    """Copies and verifies files that fit the buffer, with as few system calls as possible."""

    def __init__(self, source: str, copy: str) -> None:
        self._source, self._copy = source, copy
        # Names are relative to open folders: the kernel need not resolve the whole path each time.
        self._from = os.open(source if os.path.isdir(source) else "/", _READ_FLAGS)
        self._to = os.open(copy if os.path.isdir(copy) else "/", _READ_FLAGS)

    def copy(self, name: str, row: File) -> Row:
        """Returns the row of the record. Raises StageError."""
        size, mtime, mode, ctime = row
        for _ in range(3):
            where = self._source
            try:
                source = os.open(name or where, _READ_FLAGS, dir_fd=self._from)
                try:
                    data = _read_up_to(source, size)
                    where = self._copy
                    copy = self._create(name, mode)
                    try:
                        written = os.write(copy, data)
                        while written < len(data):
                            written += os.write(copy, data[written:])
                        is_good = os.pread(copy, size + 1, 0) == data
                        os.utime(copy, ns=(mtime, mtime))
                        status = os.fstat(copy)
                    finally:
                        os.close(copy)
                    where = self._source
                    now = os.fstat(source)
                finally:
                    os.close(source)
            except OSError as error:
                raise os_failure(path_of(where, name), error) from None
            if not len(data) == now.st_size == size or now.st_mtime_ns != mtime:
                path = printable(path_of(self._source, name))
                raise StageError("%s: changed while it was copied" % path)
            if is_good and status.st_size == size:
                checksums = (zlib.crc32(data),)
                return size, mtime, mode, ctime, status.st_mtime_ns, status.st_ctime_ns, checksums
        path = printable(path_of(self._copy, name))
        raise StageError("%s: differs from what was written when read back" % path)

    def close(self) -> None:
        os.close(self._from)
        os.close(self._to)

    def _create(self, name: str, mode: int) -> int:
        try:
            return os.open(name or self._copy, _CREATE_FLAGS, mode, dir_fd=self._to)
        except FileExistsError:
            os.unlink(name or self._copy, dir_fd=self._to)
            return os.open(name or self._copy, _CREATE_FLAGS, mode, dir_fd=self._to)


def _read_up_to(file: int, size: int) -> bytes:
    """Up to `size` + 1 bytes: one more shows that the file has grown."""
    data = os.read(file, size + 1)
    while len(data) < size:
        more = os.read(file, size - len(data))
        if not more:
            break
        data += more
    return data


# ------------------------------------------------------------------ one block


def copy_block(task: Task) -> int:
    """Copy a block unless it exists, and return its CRC-32. Raises StageError."""
    try:
        if task.existing is not None:
            expected = task.known if task.known is not None else _block_checksum(task.source, task)
            if _block_checksum(task.existing, task) == expected:
                return int(expected) + (IN_TARGET if task.existing != task.copy else IN_COPY)
        return _copy_and_verify(task)
    except OSError as error:
        raise os_failure(str(error.filename or task.copy), error) from None


def _block_checksum(path: str, task: Task) -> int:
    """The checksum of the block in a file; -1 if the file is missing or has another size."""
    try:
        file = os.open(path, _READ_FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return -1
        raise
    try:
        if os.fstat(file).st_size != task.size:
            return -1
        return range_checksum(file, task.offset, task.length)
    finally:
        os.close(file)


def range_checksum(file: int, offset: int, length: int) -> int:
    """The CRC-32 of a part of an open file; -1 if the file ends before it."""
    crc, end, buffer = 0, offset + length, memoryview(_BUFFER)
    while offset < end:
        size = os.preadv(file, [buffer[: end - offset]], offset)
        if not size:
            return -1
        crc = zlib.crc32(buffer[:size], crc)
        offset += size
    return crc


def _copy_and_verify(task: Task) -> int:
    for _ in range(3):
        source = os.open(task.source, _READ_FLAGS)
        try:
            if not _is_as_listed(source, task):
                break
            copy = _open_copy(task)
            try:
                crc = _transfer(source, copy, task)
                if not _is_as_listed(source, task):
                    break
                if crc >= 0:
                    if task.length == task.size:
                        os.utime(copy, ns=(task.mtime, task.mtime))
                    return crc
            finally:
                os.close(copy)
        finally:
            os.close(source)
    else:
        raise StageError("%s: differs from what was written when read back" % printable(task.copy))
    raise StageError("%s: changed while it was copied" % printable(task.source))


def _is_as_listed(file: int, task: Task) -> bool:
    status = os.fstat(file)
    return bool(status.st_size == task.size and status.st_mtime_ns == task.mtime)


def _open_copy(task: Task) -> int:
    if task.length < task.size:  # one of several blocks, which are written at the same time
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        copy = os.open(task.copy, flags, 0o600)
        os.ftruncate(copy, task.size)
        return copy
    try:
        return os.open(task.copy, _CREATE_FLAGS, task.mode)
    except FileExistsError:
        os.unlink(task.copy)
        return os.open(task.copy, _CREATE_FLAGS, task.mode)


def _transfer(source: int, copy: int, task: Task) -> int:
    """The CRC-32 of the block; -1 if the copy, read back, differs."""
    crc, at, end = 0, task.offset, task.offset + task.length
    buffer = memoryview(_BUFFER)
    while at < end:
        size = os.preadv(source, [buffer[: end - at]], at)
        if not size:
            raise StageError("%s: became shorter while it was copied" % printable(task.source))
        data = buffer[:size]
        crc = zlib.crc32(data, crc)
        written = 0
        while written < size:
            written += os.pwrite(copy, data[written:], at + written)
        if not _contains(copy, data, at):
            return -1
        at += size
    return crc


def _contains(file: int, data: memoryview, offset: int) -> bool:
    again = memoryview(_READ_BACK)[: len(data)]
    return os.preadv(file, [again], offset) == len(data) and _READ_BACK.startswith(data)
