"""Files copied beside the target, each one checked.

A file is copied in blocks. Of each block the CRC-32 is taken of what was read, and what the copy
then holds is read back and compared. CRC-32 finds what goes wrong by itself, at several GB/s in
Python; it proves nothing against somebody who means harm. A copy has the permissions and the time
of its original.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections import namedtuple
from typing import Tuple

from stage_list import File, path_of
from stage_log import StageError, failure, shown

BLOCK = 32 << 20  # large files are shared out, checked and resumed in pieces of this size
BUFFER = 1 << 18  # stays in a core's cache while it is read, written and read back
_READ, _AGAIN = bytearray(BUFFER), bytearray(BUFFER)  # new memory costs as much as the copying

# A block to copy. `existing`: a file that may hold it already; `known`: the sum it then must have,
# None to take it of the source.
Task = namedtuple("Task", "name source copy existing known offset length size mtime mode")
# Of a file in the record: size, time and permissions of its original; the times of content and of
# change of what is there; the sums of its blocks.
Row = Tuple[int, int, int, int, int, Tuple[int, ...]]
# Added to a sum where nothing was copied: the target holds the block, or the unfinished copy does.
KEPT, FOUND = 1 << 32, 1 << 33

_OLD = os.O_RDONLY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


# ------------------------------------------------------------------ small files


class SmallFiles:
    """Copies files that fit the buffer, by as few calls as it takes to check them."""

    def __init__(self, source: str, copy: str) -> None:
        self._source, self._copy = source, copy
        # Names below an open folder: the way to it is not walked for each of them again.
        self._from = os.open(source if os.path.isdir(source) else "/", _OLD)
        self._to = os.open(copy if os.path.isdir(copy) else "/", _OLD)

    def copy(self, name: str, row: File) -> Row:
        """Its row in the record. Raises StageError."""
        size, mtime, mode, _ = row
        for _ in range(3):
            where = self._source
            try:
                source = os.open(name or where, _OLD, dir_fd=self._from)
                try:
                    data = _all_of(source, size)
                    where = self._copy
                    copy = self._made(name, mode)
                    try:
                        written = os.write(copy, data)
                        while written < len(data):
                            written += os.write(copy, data[written:])
                        is_good = os.pread(copy, size + 1, 0) == data
                        os.utime(copy, ns=(mtime, mtime))
                        there = os.fstat(copy)
                    finally:
                        os.close(copy)
                    where = self._source
                    now = os.fstat(source)
                finally:
                    os.close(source)
            except OSError as error:
                raise failure(path_of(where, name), error) from None
            if not len(data) == now.st_size == size or now.st_mtime_ns != mtime:
                path = shown(path_of(self._source, name))
                raise StageError("%s: changed while it was copied" % path)
            if is_good and there.st_size == size:
                sums = (zlib.crc32(data),)
                return size, mtime, mode, there.st_mtime_ns, there.st_ctime_ns, sums
        path = shown(path_of(self._copy, name))
        raise StageError("%s: read back, it was not what was written" % path)

    def close(self) -> None:
        os.close(self._from)
        os.close(self._to)

    def _made(self, name: str, mode: int) -> int:
        try:
            return os.open(name or self._copy, _NEW, mode, dir_fd=self._to)
        except FileExistsError:
            os.unlink(name or self._copy, dir_fd=self._to)
            return os.open(name or self._copy, _NEW, mode, dir_fd=self._to)


def _all_of(file: int, size: int) -> bytes:
    """Up to one byte more than `size`: whether it has grown is seen."""
    data = os.read(file, size + 1)
    while len(data) < size:
        more = os.read(file, size - len(data))
        if not more:
            break
        data += more
    return data


# ------------------------------------------------------------------ one block


def copy_block(task: Task) -> int:
    """Copy a block unless it is there, and say its CRC-32. Raises StageError."""
    try:
        if task.existing is not None:
            expected = task.known if task.known is not None else _sum_of(task.source, task)
            if _sum_of(task.existing, task) == expected:
                return int(expected) + (KEPT if task.existing != task.copy else FOUND)
        return _copied(task)
    except OSError as error:
        raise failure(str(error.filename or task.copy), error) from None


def _sum_of(path: str, task: Task) -> int:
    """The sum of the block in a file; -1 where the file is not there, or not that long."""
    try:
        file = os.open(path, _OLD | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
            return -1
        raise
    try:
        if os.fstat(file).st_size != task.size:
            return -1
        return sum_of_range(file, task.offset, task.length)
    finally:
        os.close(file)


def sum_of_range(file: int, offset: int, length: int) -> int:
    """The CRC-32 of a part of an open file; -1 where it ends too early."""
    crc, end, buffer = 0, offset + length, memoryview(_READ)
    while offset < end:
        size = os.preadv(file, [buffer[: end - offset]], offset)
        if not size:
            return -1
        crc = zlib.crc32(buffer[:size], crc)
        offset += size
    return crc


def _copied(task: Task) -> int:
    for _ in range(3):
        source = os.open(task.source, _OLD)
        try:
            if not _is_as_listed(source, task):
                break
            copy = _opened_copy(task)
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
        raise StageError("%s: read back, it was not what was written" % shown(task.copy))
    raise StageError("%s: changed while it was copied" % shown(task.source))


def _is_as_listed(file: int, task: Task) -> bool:
    status = os.fstat(file)
    return bool(status.st_size == task.size and status.st_mtime_ns == task.mtime)


def _opened_copy(task: Task) -> int:
    if task.length < task.size:  # one block of many, and others are being written
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        copy = os.open(task.copy, flags, 0o600)
        os.ftruncate(copy, task.size)
        return copy
    try:
        return os.open(task.copy, _NEW, task.mode)
    except FileExistsError:
        os.unlink(task.copy)
        return os.open(task.copy, _NEW, task.mode)


def _transfer(source: int, copy: int, task: Task) -> int:
    """The CRC-32 of what was read; -1 where the copy, read back, holds something else."""
    crc, at, end = 0, task.offset, task.offset + task.length
    buffer = memoryview(_READ)
    while at < end:
        size = os.preadv(source, [buffer[: end - at]], at)
        if not size:
            raise StageError("%s: became shorter while it was copied" % shown(task.source))
        data = buffer[:size]
        crc = zlib.crc32(data, crc)
        written = 0
        while written < size:
            written += os.pwrite(copy, data[written:], at + written)
        if not _holds(copy, data, at):
            return -1
        at += size
    return crc


def _holds(file: int, data: memoryview, offset: int) -> bool:
    again = memoryview(_AGAIN)[: len(data)]
    return os.preadv(file, [again], offset) == len(data) and _AGAIN.startswith(data)
