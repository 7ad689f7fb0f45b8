"""What lies in a folder, and its files copied by several processes at once, each one checked.

A file is copied in blocks. Of each block the CRC-32 is taken of what was read, and what the copy
then holds is read back and compared. CRC-32 finds what goes wrong by itself, at several GB/s in
Python; it proves nothing against somebody who means harm. A copy has the permissions and the time
of its original.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections import namedtuple
from typing import Any, Dict, List, Tuple

from stage_log import StageError, failure, shown

BLOCK = 32 << 20  # large files are shared out, checked and resumed in pieces of this size
BUFFER = 1 << 18  # stays in a core's cache while it is read, written and read back
_READ, _AGAIN = bytearray(BUFFER), bytearray(BUFFER)  # new memory costs as much as the copying

# kind: file, folder or link. `origin`: the path to read from; of a link, what it says.
Entry = namedtuple("Entry", "kind size mtime mode origin ctime")
# A block to copy. `existing`: a file that may hold it already; `known`: the sum it then must have,
# None to take it of the source.
Task = namedtuple("Task", "source copy existing known offset length size mtime mode")
# Added to a sum where nothing was copied: the target holds the block, or the unfinished copy does.
KEPT, FOUND = 1 << 32, 1 << 33


# ------------------------------------------------------------------ what lies in a folder


def scan(root: str, follow: bool = True) -> Dict[str, Entry]:
    """All below `root` by relative name; a single file has the name "".

    A relative link that stays inside is kept as a link. One that leads out is followed where
    `follow` says so: a copy must not lean on what may not be there. Raises StageError.
    """
    try:
        status = os.stat(root)
        if not stat.S_ISDIR(status.st_mode):
            return {"": _entry(root, status)}
        found: Dict[str, Entry] = {}
        stack: List[Tuple[str, str, Tuple[str, ...]]] = [(root, "", (os.path.realpath(root),))]
        while stack:
            folder, prefix, above = stack.pop()
            with os.scandir(folder) as items:
                for item in items:
                    name = prefix + item.name
                    entry = _scanned(item, prefix, follow)
                    found[name] = entry
                    if entry.kind == "folder":
                        inside = _way_down(item, folder, above)
                        stack.append((item.path, name + "/", inside))
        return found
    except OSError as error:
        raise failure(str(error.filename or root), error) from None


def _scanned(item: Any, prefix: str, follow: bool) -> Entry:
    status = item.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        said = os.readlink(item.path)
        if not follow or _stays_inside(prefix, said):
            return Entry("link", 0, 0, 0, said, 0)
        try:
            status = os.stat(item.path)
        except OSError:
            what = "%s: a link to nothing: %s" % (shown(item.path), shown(said))
            raise StageError(what) from None
    return _entry(item.path, status)


def _entry(path: str, status: os.stat_result) -> Entry:
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISREG(status.st_mode):
        return Entry("file", status.st_size, status.st_mtime_ns, mode, path, status.st_ctime_ns)
    if stat.S_ISDIR(status.st_mode):
        return Entry("folder", 0, 0, mode, path, 0)
    raise StageError("%s: neither a file nor a folder nor a link" % shown(path))


def _stays_inside(prefix: str, said: str) -> bool:
    return not said.startswith("/") and os.path.normpath(prefix + said).split("/")[0] != ".."


def _way_down(item: Any, folder: str, above: Tuple[str, ...]) -> Tuple[str, ...]:
    """The real folders that links have led through. Raises StageError where it is a circle."""
    if not item.is_symlink():
        return above
    real = os.path.realpath(item.path)
    for passed in (*above, os.path.realpath(folder)):
        if (passed + "/").startswith(real.rstrip("/") + "/"):
            raise StageError("%s: a link back to a folder that it lies in" % shown(item.path))
    return (*above, real)


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
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
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
        source = os.open(task.source, os.O_RDONLY | os.O_CLOEXEC)
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
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(task.copy, flags, task.mode)
    except FileExistsError:
        os.unlink(task.copy)
        return os.open(task.copy, flags, task.mode)


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
