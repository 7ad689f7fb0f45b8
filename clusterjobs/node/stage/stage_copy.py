"""Copy to the folder beside the target the files of a source folder that the target lacks."""

from __future__ import annotations

import json
import os
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from stage_changes import is_same_file, unchanged_files
from stage_files import BLOCK, BUFFER, IN_TARGET, SmallFiles, Task, copy_block
from stage_list import File, Listing, path_of, scan
from stage_lock import Lock
from stage_log import Progress, printable
from stage_pool import batches, interleaved, run_parallel
from stage_record import (
    Block,
    Checksums,
    SmallFileRows,
    StagedCopy,
    StagePaths,
    remove,
)
from stage_space import FreeSpace, check_space
from stage_target import TargetFiles

Batch = Tuple[int, int]
NoMore = Tuple[()]  # no further tasks


class Earlier(NamedTuple):
    """What earlier jobs have left."""

    recorded: Dict[str, List[Any]]  # rows of the record whose source files have not changed
    journal: Dict[Block, int]
    in_target: Dict[str, File]


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
    earlier = _find_earlier(paths, listing, record)
    checksums: Checksums = {}
    if record:
        unchanged = unchanged_files(paths.target, record)
        checksums = {name: row[-1] for name, row in unchanged.items() if name in earlier.recorded}
    small: List[str] = []
    tasks: List[Task] = []
    is_first = not any(earlier)
    for name, row in listing.files.items():
        if name in checksums:
            continue
        if row[0] <= BUFFER and (is_first or not _may_exist(name, row, earlier)):
            small.append(name)
        else:
            tasks += _blocks(paths, source, name, row, earlier)
    total = sum(listing.files[name][0] for name in small)
    check_space(paths, listing, total + sum(one.length for one in tasks if not one.existing))
    _remove_leftovers(paths.copy, {*small, *(one.name for one in tasks)}, listing)
    make_folders(paths.copy, listing)
    total += sum(one.length for one in tasks)
    copier = Copier(paths, source, listing, total, lock)
    _copy_blocks(copier, tasks, checksums)
    return StagedCopy(listing, checksums, copier.small(small), None)


def _copy_blocks(copier: Copier, tasks: Sequence[Task], checksums: Checksums) -> None:
    """Copy the blocks that are missing, and add the checksums of all."""
    crcs = copier.blocks(tasks)
    mixed = _mixed(tasks, crcs)
    again = [n for n, one in enumerate(tasks) if crcs[n] & IN_TARGET and one.name in mixed]
    if again:  # a file is either the target's or a complete copy
        forced = [tasks[number]._replace(existing=None) for number in again]
        for number, crc in zip(again, copier.blocks(forced)):
            crcs[number] = crc
    for task, crc in zip(tasks, crcs):
        checksums.setdefault(task.name, []).append(crc % IN_TARGET)
        if crc & IN_TARGET and task.name not in mixed and os.path.lexists(task.copy):
            os.unlink(task.copy)  # left by an earlier attempt; the target's file is used


def _mixed(tasks: Sequence[Task], crcs: Sequence[int]) -> Set[str]:
    """Files with some blocks in the target and some copied."""
    kept = {task.name for task, crc in zip(tasks, crcs) if crc & IN_TARGET}
    return kept & {task.name for task, crc in zip(tasks, crcs) if not crc & IN_TARGET}


def _find_earlier(paths: StagePaths, listing: Listing, record: Optional[Dict[str, Any]]) -> Earlier:
    in_target = scan(paths.target, follow=False).files if os.path.exists(paths.target) else {}
    rows = record["files"] if record else {}
    same = {name: row for name, row in rows.items() if is_same_file(listing.files.get(name), row)}
    return Earlier(same, paths.load_journal(), in_target)


def _may_exist(name: str, row: File, earlier: Earlier) -> bool:
    file = earlier.in_target.get(name)
    return bool(earlier.journal) or (file is not None and file[0] == row[0])


def _blocks(paths: StagePaths, source: str, name: str, row: File, earlier: Earlier) -> List[Task]:
    """The tasks of one file; each says where its block may exist, and its known checksum."""
    size, mtime, mode, ctime = row
    origin, copy, target = (path_of(folder, name) for folder in (source, paths.copy, paths.target))
    in_target = name in earlier.in_target and earlier.in_target[name][0] == size
    tasks = []
    for number in range(max(1, -(-size // BLOCK))):
        offset = number * BLOCK
        existing, crc = target if in_target else None, None
        if name in earlier.recorded:
            crc = earlier.recorded[name][-1][number]
        elif earlier.journal:
            crc = earlier.journal.get((name, offset, size, mtime, ctime))
            if crc is not None and os.path.lexists(copy):
                existing = copy
        length = min(BLOCK, size - offset)
        tasks.append(
            Task(name, origin, copy, existing, crc, offset, length, size, mtime, mode, ctime)
        )
    return tasks


def _remove_leftovers(copy: str, wanted: AbstractSet[str], listing: Listing) -> None:
    """Remove what an earlier attempt has left in the copy and this one does not write."""
    if os.path.isdir(copy) and not os.path.islink(copy):
        found = scan(copy, follow=False)
        for name in [*(found.files.keys() - wanted), *found.links]:
            os.unlink(path_of(copy, name))
        for name in found.folders:
            if name not in listing.folders:
                remove(path_of(copy, name))


def make_folders(copy: str, listing: Listing) -> None:
    """Create all folders of the copy, writable until it is complete."""
    if "" not in listing.files:
        os.makedirs(copy, exist_ok=True)
    for name in listing.folders:
        os.makedirs(path_of(copy, name), exist_ok=True)


class Copier:
    """Copies in several processes, and records in the journal what they have copied."""

    def __init__(
        self, paths: StagePaths, source: str, listing: Listing, total: int, lock: Lock
    ) -> None:
        self._paths, self._source, self._files, self._lock = paths, source, listing.files, lock
        space = FreeSpace(paths)

        def check() -> None:
            lock.check_lease()
            space.check()

        self._progress = Progress("stage %s" % printable(paths.target), total, check)

    def blocks(self, tasks: Sequence[Task]) -> List[int]:
        """The checksum of each block, with IN_TARGET or IN_COPY where nothing was copied."""
        sizes = [task.length for task in tasks]
        results = [0] * len(tasks)

        def work(batch: Batch) -> List[int]:
            return [copy_block(task) for task in tasks[batch[0] : batch[1]]]

        def done(batch: Batch, crcs: List[int]) -> NoMore:
            first, end = batch
            results[first:end] = crcs
            rows = [
                (task.name, task.offset, task.size, task.mtime, task.ctime, crc % IN_TARGET)
                for task, crc in zip(tasks[first:end], crcs)
            ]
            self._record(sum(sizes[first:end]), json.dumps(rows), min(crcs) < IN_TARGET)
            return ()

        run_parallel(work, batches(sizes), done, self._progress.tick)
        for task, crc in zip(tasks, results):
            if not crc & IN_TARGET:  # also one of an earlier attempt, which may have been killed
                os.chmod(task.copy, task.mode & ~0o002)
                os.utime(task.copy, ns=(task.mtime, task.mtime))
        return results

    def small(self, names: Sequence[str]) -> SmallFileRows:
        """Copy files that fit the buffer; their rows of the record serve as journal entries too."""
        files = self._files
        sizes = [files[name][0] for name in names]
        copier = SmallFiles(self._source, self._paths.copy)
        rows: List[str] = []

        def work(batch: Batch) -> str:
            found = {name: copier.copy(name, files[name]) for name in names[batch[0] : batch[1]]}
            return json.dumps(found, separators=(",", ":"))

        def done(batch: Batch, line: str) -> NoMore:
            rows.append(line[1:-1])
            self._record(sum(sizes[batch[0] : batch[1]]), line, True)
            return ()

        run_parallel(work, interleaved(batches(sizes)), done, self._progress.tick)
        copier.close()
        return SmallFileRows(names, rows)

    def _record(self, size: int, line: str, is_new: bool) -> None:
        if is_new:
            self._lock.report_progress()
        self._progress.add(size)
        self._paths.append_journal(line)
