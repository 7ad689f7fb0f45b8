"""Copy to the folder beside the target the files of a source folder that the target lacks.

Files are copied in blocks, in several threads. Each block is read back from the copy and
compared, and its CRC-32 is kept: it detects accidental errors at several GB/s in Python, and does
not protect from an attacker. A copy gets the permissions and the time of its original.
"""

from __future__ import annotations

import os
import threading
import zlib
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from stage_commit import TargetFiles, unchanged_files
from stage_list import File, Listing, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, os_failure, printable
from stage_pool import batches, check_running, run_parallel
from stage_record import Checksums, Journal, StagedCopy, StagePaths, remove
from stage_space import FreeSpace, check_space

BLOCK = 32 << 20  # the unit in which large files are distributed, verified and resumed
BUFFER = 1 << 18  # stays in a core's cache while it is read, written and read back
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_PART_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FLAGS = _PART_FLAGS | os.O_EXCL


class _Buffers(threading.local):
    """Used again for each block: new memory costs as much time as the copying."""

    def __init__(self) -> None:
        self.data, self.again = bytearray(BUFFER), bytearray(BUFFER)


buffers = _Buffers()


class Block(NamedTuple):
    """A part of a file."""

    name: str
    offset: int
    length: int
    row: File  # of the whole file

    @property
    def key(self) -> Tuple[str, int, int, int, int]:
        """What the journal knows it by."""
        return (self.name, self.offset, self.row[0], self.row[1], self.row[3])


def copy_files(
    paths: StagePaths,
    source: str,
    record: Optional[Dict[str, Any]],
    target: TargetFiles,
    lock: Lock,
) -> StagedCopy:
    """Copy to `paths.copy` what the target lacks. Raises StageError.

    Without a record all files of the source and of the target are read.
    """
    listing = scan(source)
    now = target.check(listing)
    rows = unchanged_files(now, record) if record else {}
    there = {name for name, row in rows.items() if listing.files.get(name) == tuple(row[:4])}
    sizes = {
        name: row[0]
        for name, row in listing.files.items()
        if name not in there and now.files.get(name, (-1,))[0] == row[0]
    }
    there |= _found_in_target(paths, source, sizes, lock)
    missing = {name: row for name, row in listing.files.items() if name not in there}
    blocks = [one for name, row in missing.items() for one in blocks_of(name, row)]
    journal = paths.load_journal()
    check_space(paths, listing, sum(one.length for one in blocks if one.key not in journal))
    remove_leftovers(paths.copy, missing, listing)
    make_folders(paths.copy, listing)
    Copier(paths, source, journal).copy(blocks, lock)
    return StagedCopy(listing, {})


def _found_in_target(paths: StagePaths, source: str, sizes: Dict[str, int], lock: Lock) -> Set[str]:
    """Those of the files that the target has already with the same contents."""
    if not sizes:
        return set()
    progress = progress_of(paths, 2 * sum(sizes.values()), lock)
    wanted = read_checksums(source, sizes, progress)
    found = read_checksums(paths.target, sizes, progress)
    same = {name for name in sizes if found[name] == wanted[name] and -1 not in found[name]}
    for name in same:  # not what an earlier attempt has left
        remove(path_of(paths.copy, name))
    return same


def remove_leftovers(copy: str, wanted: Iterable[str], listing: Listing) -> None:
    """Remove what an earlier attempt has left in the copy and this one does not write."""
    if os.path.isdir(copy) and not os.path.islink(copy):
        found = scan(copy, follow=False)
        for name in [*(found.files.keys() - wanted), *found.links]:
            os.unlink(path_of(copy, name))
        for name in found.folders.keys() - listing.folders.keys():
            remove(path_of(copy, name))


def make_folders(copy: str, listing: Listing) -> None:
    """Create all folders of the copy, writable until it is complete."""
    if "" not in listing.files:
        os.makedirs(copy, exist_ok=True)
    for name in listing.folders:
        os.makedirs(path_of(copy, name), exist_ok=True)


def progress_of(paths: StagePaths, total: int, lock: Lock) -> Progress:
    """Progress that also ends the copying if the lease is lost or the disk becomes full."""
    space = FreeSpace(paths)

    def check() -> None:
        lock.check_lease()
        space.check()

    return Progress("stage %s" % printable(paths.target), total, check)


def blocks_of(name: str, row: File) -> List[Block]:
    """The blocks of a file; an empty file has one."""
    size = row[0]
    return [Block(name, at, min(BLOCK, size - at), row) for at in range(0, size or 1, BLOCK)]


# ------------------------------------------------------------------ checksums


def read_checksums(folder: str, sizes: Dict[str, int], progress: Progress) -> Checksums:
    """The checksums of files, of which those of a missing or shorter file are wrong."""
    blocks = [one for name, size in sizes.items() for one in blocks_of(name, (size, 0, 0, 0))]
    sums: Dict[Block, int] = {}

    def work(batch: Tuple[int, int]) -> int:
        for one in blocks[slice(*batch)]:
            sums[one] = block_checksum(path_of(folder, one.name), one)
        return sum(one.length for one in blocks[slice(*batch)])

    def done(_: Any, size: int) -> None:
        progress.add(size)

    run_parallel(work, batches([one.length for one in blocks]), done, progress.tick)
    found: Checksums = {name: [] for name in sizes}
    for one in blocks:
        found[one.name].append(sums[one])
    return found


def block_checksum(path: str, block: Block) -> int:
    """The CRC-32 of a block in a file; -1 if the file ends before it, or is no file."""
    try:
        file = os.open(path, _READ_FLAGS)
    except OSError as error:
        if isinstance(error, PermissionError):
            raise os_failure(path, error) from None
        return -1
    crc, at, end, buffer = 0, block.offset, block.offset + block.length, memoryview(buffers.data)
    try:
        while at < end:
            size = os.preadv(file, [buffer[: end - at]], at)
            if not size:
                return -1
            crc = zlib.crc32(buffer[:size], crc)
            at += size
        return crc
    except OSError as error:
        raise os_failure(path, error) from None
    finally:
        os.close(file)


# ------------------------------------------------------------------ copying


class Copier:
    """Copies in several threads, and records in the journal what they have copied."""

    def __init__(self, paths: StagePaths, source: str, journal: Journal) -> None:
        self._paths, self._source, self._journal = paths, source, journal

    def copy(self, blocks: Sequence[Block], lock: Lock) -> None:
        """Copy what the copy lacks."""
        progress = progress_of(self._paths, sum(one.length for one in blocks), lock)

        def work(batch: Tuple[int, int]) -> List[Tuple[int, bool]]:
            return [self._have(one) for one in blocks[slice(*batch)]]

        def done(batch: Tuple[int, int], results: List[Tuple[int, bool]]) -> None:
            some = blocks[slice(*batch)]
            if any(is_new for _, is_new in results):
                lock.report_progress()
            progress.add(sum(one.length for one in some))
            rows = [(*one.key, crc) for one, (crc, _) in zip(some, results)]
            self._paths.append_journal(rows)

        run_parallel(work, batches([one.length for one in blocks]), done, progress.tick)
        for name, row in {one.name: one.row for one in blocks if one.offset}.items():
            _finish(path_of(self._paths.copy, name), row)

    def _have(self, block: Block) -> Tuple[int, bool]:
        """Copy a block unless it is there: its checksum, and whether it was copied."""
        path, known = path_of(self._paths.copy, block.name), self._journal.get(block.key)
        if known is None or block_checksum(path, block) != known:
            return self._copy_block(block, path), True
        if os.lstat(path).st_size != block.row[0]:
            return self._copy_block(block, path), True
        if block.length == block.row[0]:  # it may have been killed before the copy had these
            _finish(path, block.row)
        return known, False

    def _copy_block(self, block: Block, path: str) -> int:
        size, mtime, _, _ = block.row
        origin = path_of(self._source, block.name)
        for _ in range(3):
            # Descriptors: to make Python's file objects takes as long as to copy a small file.
            files: List[int] = []
            try:
                files.append(os.open(origin, os.O_RDONLY | os.O_CLOEXEC))
                files.append(_create(path, block))
                crc = _transfer(files[0], files[1], block)
                if block.length == size:
                    _finish(files[1], block.row)
                now, written = map(os.fstat, files)
            except OSError as error:
                raise os_failure(str(error.filename or path), error) from None
            finally:
                for file in files:
                    os.close(file)
            if crc is None or now.st_size != size or now.st_mtime_ns != mtime:
                raise StageError("%s: changed while it was copied" % printable(origin))
            if crc >= 0 and written.st_size == size:
                return crc
        raise StageError("%s: differs from what was written when read back" % printable(path))


def _create(path: str, block: Block) -> int:
    if block.length < block.row[0]:  # one of several blocks, which are written at the same time
        copy = os.open(path, _PART_FLAGS, 0o600)
        os.ftruncate(copy, block.row[0])
        return copy
    try:
        return os.open(path, _NEW_FLAGS, 0o600)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, _NEW_FLAGS, 0o600)


def _finish(copy: Union[int, str], row: File) -> None:
    """Give a copy the permissions and the time of its original."""
    os.chmod(copy, row[2] & ~0o002)
    os.utime(copy, ns=(row[1], row[1]))


def _transfer(source: int, copy: int, block: Block) -> Optional[int]:
    """The CRC-32 of the block; -1 if the copy differs when read back; None if the source ends."""
    crc, at, end, buffer = 0, block.offset, block.offset + block.length, memoryview(buffers.data)
    while at < end:
        size = os.preadv(source, [buffer[: end - at]], at)
        if not size:
            return None
        data = buffer[:size]
        crc = zlib.crc32(data, crc)
        check_running()
        written = 0
        while written < size:
            written += os.pwrite(copy, data[written:], at + written)
        if not _contains(copy, data, at):
            return -1
        at += size
    return crc


def _contains(file: int, data: memoryview, offset: int) -> bool:
    again = memoryview(buffers.again)[: len(data)]
    return os.preadv(file, [again], offset) == len(data) and buffers.again.startswith(data)
