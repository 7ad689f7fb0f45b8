"""Copy to the folder beside the target the files of a source folder that the target lacks.

Files are copied in blocks, in several processes. Each block is read back from the copy and
compared, and its CRC-32 is kept: it detects accidental errors at several GB/s in Python, and does
not protect from an attacker. A copy gets the permissions and the time of its original.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from stage_commit import TargetFiles, unchanged_files
from stage_list import File, Listing, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, os_failure, printable
from stage_pool import batches, interleaved, run_parallel
from stage_record import Checksums, StagedCopy, StagePaths, remove
from stage_space import FreeSpace, check_space

BLOCK = 32 << 20  # the unit in which large files are distributed, verified and resumed
BUFFER = 1 << 18  # stays in a core's cache while it is read, written and read back
# Used again for each block: new memory costs as much time as the copying.
_BUFFER, _READ_BACK = bytearray(BUFFER), bytearray(BUFFER)
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC
_PART_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FLAGS = _PART_FLAGS | os.O_EXCL


class Block(NamedTuple):
    """A part of a file; `known` is its checksum if an earlier attempt has copied it."""

    name: str
    offset: int
    length: int
    row: File  # of the whole file
    known: Optional[int]


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
    target.check_sizes(listing)
    rows = record["files"] if record else {}
    same = {n: row[-1] for n, row in rows.items() if listing.files.get(n) == tuple(row[:4])}
    unchanged = unchanged_files(paths.target, record) if record else {}
    checksums = {name: crcs for name, crcs in same.items() if name in unchanged}
    checksums.update(_found_in_target(paths, source, listing, same, checksums, lock))
    journal = paths.load_journal()
    small: List[Block] = []
    large: List[Block] = []
    for name, row in listing.files.items():
        if name not in checksums:
            (small if row[0] <= BLOCK else large).extend(blocks_of(name, row, journal))
    missing = [*small, *large]
    needed = sum(one.length for one in missing if one.known is None)
    check_space(paths, listing, needed)
    _remove_leftovers(paths.copy, {one.name for one in missing}, listing)
    make_folders(paths.copy, listing)
    total = sum(one.length for one in missing)
    copier = Copier(paths, source, progress_of(paths, total, lock), lock)
    checksums.update(copier.copy_large(large))
    return StagedCopy(
        listing, checksums, None, [one.name for one in small], copier.copy_small(small)
    )


def _found_in_target(
    paths: StagePaths, source: str, listing: Listing, same: Checksums, known: Any, lock: Lock
) -> Checksums:
    """The files that the target has already, by their contents. `same`: checksums of the source."""
    if not os.path.exists(paths.target):
        return {}
    there = scan(paths.target, follow=False).files
    sizes = {name: row[0] for name, row in listing.files.items() if name not in known}
    sizes = {name: size for name, size in sizes.items() if there.get(name, (-1,))[0] == size}
    unread = {name: size for name, size in sizes.items() if name not in same}
    progress = progress_of(paths, sum(sizes.values()) + sum(unread.values()), lock)
    wanted = {**same, **read_checksums(source, unread, progress)}
    found = read_checksums(paths.target, sizes, progress)
    for name in found:
        if found[name] == wanted[name]:  # not what an earlier attempt has left
            remove(path_of(paths.copy, name))
    return {name: crcs for name, crcs in found.items() if crcs == wanted[name]}


def _remove_leftovers(copy: str, wanted: Iterable[str], listing: Listing) -> None:
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


def blocks_of(name: str, row: File, journal: Any = None) -> List[Block]:
    """The blocks of a file; an empty file has one."""
    size, mtime, _, ctime = row
    blocks = []
    for offset in range(0, size or 1, BLOCK):
        known = journal.get((name, offset, size, mtime, ctime)) if journal else None
        blocks.append(Block(name, offset, min(BLOCK, size - offset), row, known))
    return blocks


# ------------------------------------------------------------------ checksums


def read_checksums(folder: str, sizes: Dict[str, int], progress: Progress) -> Checksums:
    """The checksums of files, of which those of a missing or shorter file are wrong."""
    blocks = [one for name, size in sizes.items() for one in blocks_of(name, (size, 0, 0, 0))]
    lengths = [one.length for one in blocks]
    found: Checksums = {name: [] for name in sizes}
    results = [0] * len(blocks)

    def work(batch: Tuple[int, int]) -> List[int]:
        return [block_checksum(path_of(folder, one.name), one) for one in blocks[slice(*batch)]]

    def done(batch: Tuple[int, int], crcs: List[int]) -> Tuple[()]:
        results[slice(*batch)] = crcs
        progress.add(sum(lengths[slice(*batch)]))
        return ()

    run_parallel(work, batches(lengths), done, progress.tick)
    for one, crc in zip(blocks, results):
        found[one.name].append(crc)
    return found


def block_checksum(path: str, block: Block) -> int:
    """The CRC-32 of a block in a file; -1 if the file ends before it, or is no file."""
    try:
        file = os.open(path, _READ_FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if isinstance(error, PermissionError):
            raise os_failure(path, error) from None
        return -1
    crc, at, end, buffer = 0, block.offset, block.offset + block.length, memoryview(_BUFFER)
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
    """Copies in several processes, and records in the journal what they have copied."""

    def __init__(self, paths: StagePaths, source: str, progress: Progress, lock: Lock) -> None:
        self._paths, self._progress, self._lock = paths, progress, lock
        self._source, self._copy = source, paths.copy
        # Names are relative to open folders: the kernel need not resolve the whole path each time.
        self._from = os.open(source if os.path.isdir(source) else "/", _READ_FLAGS)
        self._to = os.open(self._copy if os.path.isdir(self._copy) else "/", _READ_FLAGS)

    def copy_small(self, blocks: Sequence[Block]) -> List[str]:
        """Copy files of one block; their rows of the record serve as journal entries, too."""
        rows: List[str] = []

        def work(batch: Tuple[int, int]) -> Tuple[str, bool]:
            found, is_new = {}, False
            for one in blocks[slice(*batch)]:
                crc, now, is_copied = self._have(one)
                found[one.name] = (*one.row, now.st_mtime_ns, now.st_ctime_ns, (crc,))
                is_new |= is_copied
            return json.dumps(found, separators=(",", ":")), is_new

        def done(line: str) -> None:
            rows.append(line[1:-1])

        self._run(blocks, work, done)
        return rows

    def copy_large(self, blocks: Sequence[Block]) -> Checksums:
        """Copy blocks of larger files."""
        found: Dict[str, Dict[int, int]] = {one.name: {} for one in blocks}

        def work(batch: Tuple[int, int]) -> Tuple[str, bool]:
            rows, is_new = [], False
            for one in blocks[slice(*batch)]:
                crc, _, is_copied = self._have(one)
                size, mtime, _, ctime = one.row
                rows.append((one.name, one.offset, size, mtime, ctime, crc))
                is_new |= is_copied
            return json.dumps(rows), is_new

        def done(line: str) -> None:
            for name, offset, _, _, _, crc in json.loads(line):
                found[name][offset] = crc

        self._run(blocks, work, done)
        for name, row in {one.name: one.row for one in blocks}.items():
            os.chmod(path_of(self._copy, name), row[2] & ~0o002)
            os.utime(path_of(self._copy, name), ns=(row[1], row[1]))
        return {name: [crcs[at] for at in sorted(crcs)] for name, crcs in found.items()}

    def _run(self, blocks: Sequence[Block], work: Any, done: Any) -> None:
        lengths = [one.length for one in blocks]

        def on_result(batch: Tuple[int, int], result: Tuple[str, bool]) -> Tuple[()]:
            line, is_new = result
            if is_new:
                self._lock.report_progress()
            self._progress.add(sum(lengths[slice(*batch)]))
            self._paths.append_journal(line)
            done(line)
            return ()

        run_parallel(work, interleaved(batches(lengths)), on_result, self._progress.tick)

    def _have(self, block: Block) -> Tuple[int, os.stat_result, bool]:
        """Copy a block unless it is there: its checksum, the copy's status, if it was copied."""
        path = path_of(self._copy, block.name) if block.known is not None else ""
        if not path or block_checksum(path, block) != block.known:
            return (*self._copy_block(block), True)
        if os.lstat(path).st_size != block.row[0]:
            return (*self._copy_block(block), True)
        if block.length == block.row[0]:  # it may have been killed before the copy had these
            os.chmod(path, block.row[2] & ~0o002)
            os.utime(path, ns=(block.row[1], block.row[1]))
        return block.known, os.lstat(path), False

    def _copy_block(self, block: Block) -> Tuple[int, os.stat_result]:
        size, mtime, _, _ = block.row
        for _ in range(3):
            where = self._source
            try:
                source = os.open(block.name or where, _READ_FLAGS, dir_fd=self._from)
                try:
                    where = self._copy
                    copy = self._open(block)
                    try:
                        crc = _transfer(source, copy, block)
                        if block.length == size:
                            os.utime(copy, ns=(mtime, mtime))
                        status = os.fstat(copy)
                    finally:
                        os.close(copy)
                    where = self._source
                    now = os.fstat(source)
                finally:
                    os.close(source)
            except OSError as error:
                raise os_failure(path_of(where, block.name), error) from None
            if crc is None or now.st_size != size or now.st_mtime_ns != mtime:
                path = printable(path_of(self._source, block.name))
                raise StageError("%s: changed while it was copied" % path)
            if crc >= 0 and status.st_size == size:
                return crc, status
        path = printable(path_of(self._copy, block.name))
        raise StageError("%s: differs from what was written when read back" % path)

    def _open(self, block: Block) -> int:
        name = block.name or self._copy
        if block.length < block.row[0]:  # one of several blocks, which are written at the same time
            copy = os.open(name, _PART_FLAGS, 0o600, dir_fd=self._to)
            os.ftruncate(copy, block.row[0])
            return copy
        try:
            return os.open(name, _NEW_FLAGS, block.row[2], dir_fd=self._to)
        except FileExistsError:
            os.unlink(name, dir_fd=self._to)
            return os.open(name, _NEW_FLAGS, block.row[2], dir_fd=self._to)


def _transfer(source: int, copy: int, block: Block) -> Optional[int]:
    """The CRC-32 of the block; -1 if the copy differs when read back; None if the source ends."""
    crc, at, end, buffer = 0, block.offset, block.offset + block.length, memoryview(_BUFFER)
    while at < end:
        size = os.preadv(source, [buffer[: end - at]], at)
        if not size:
            return None
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
