"""The files of a folder copied beside the target, as far as they are not there already."""

from __future__ import annotations

import json
import os
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from stage_files import BLOCK, BUFFER, KEPT, SmallFiles, Task, copy_block
from stage_list import File, Listing, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, counted, shown, size
from stage_pool import apart, batches_of, run_all
from stage_record import Block, Place, Seen, Sums, compare, is_same_source, remove

_SPARE = 1.01  # a file system needs a little for itself

Batch = Tuple[int, int]
Nothing = Tuple[()]  # more to do


class Known(NamedTuple):
    """What earlier jobs have left behind."""

    recorded: Dict[str, List[Any]]  # rows of the record whose sources are still the same
    journal: Dict[Block, int]
    there: Dict[str, File]  # in the target


def bring_files(
    place: Place,
    source: str,
    listing: Listing,
    record: Optional[Dict[str, Any]],
    lock: Lock,
    reread: bool,
) -> Tuple[Sums, Seen]:
    """Copy what the target lacks to `place.copy`. `reread`: even what looks sound is read again.

    Gives the sums of all files by name, and what has been seen of the copies. Raises StageError.
    """
    known = _known(place, listing, record)
    sums = {} if reread or not record else _sound(place, record, known.recorded)
    small: List[str] = []
    tasks: List[Task] = []
    is_first = not any(known)
    for name, row in listing.files.items():
        if name in sums:
            continue
        if row[0] <= BUFFER and (is_first or not _may_be_there(name, row, known)):
            small.append(name)
        else:
            tasks += _blocks(place, source, name, row, known)
    total = sum(listing.files[name][0] for name in small)
    check_space(place, listing, total + sum(one.length for one in tasks if not one.existing))
    _remove_others(place.copy, {*small, *(one.name for one in tasks)}, listing)
    make_folders(place.copy, listing)
    total += sum(one.length for one in tasks)
    copying = Copying(place, source, listing, total, lock)
    crcs = copying.blocks(tasks)
    mixed = _mixed(tasks, crcs)
    again = [n for n, one in enumerate(tasks) if crcs[n] & KEPT and one.name in mixed]
    if again:  # a file is made of one or the other, never of both
        forced = [tasks[number]._replace(existing=None) for number in again]
        for number, crc in zip(again, copying.blocks(forced)):
            crcs[number] = crc
    for task, crc in zip(tasks, crcs):
        sums.setdefault(task.name, []).append(crc % KEPT)
        if crc & KEPT and task.name not in mixed and os.path.lexists(task.copy):
            os.unlink(task.copy)  # an earlier attempt's; the target's own is the one
    return sums, copying.small(small)


def _known(place: Place, listing: Listing, record: Optional[Dict[str, Any]]) -> Known:
    there = scan(place.target, follow=False).files if os.path.exists(place.target) else {}
    rows = record["files"] if record else {}
    same = {name: row for name, row in rows.items() if is_same_source(listing.files.get(name), row)}
    return Known(same, place.load_journal(), there)


def _sound(place: Place, record: Dict[str, Any], recorded: Dict[str, List[Any]]) -> Sums:
    """The sums of what is there as it was staged, and of a source that is as it was."""
    wrong, touched = compare(place.target, record)
    doubtful = {*wrong, *touched}
    return {name: row[-1] for name, row in recorded.items() if name not in doubtful}


def _may_be_there(name: str, row: File, known: Known) -> bool:
    there = known.there.get(name)
    return bool(known.journal) or (there is not None and there[0] == row[0])


def _blocks(place: Place, source: str, name: str, row: File, known: Known) -> List[Task]:
    length = row[0]
    is_there = name in known.there and known.there[name][0] == length
    count = max(1, -(-length // BLOCK))
    return [_task(place, source, name, row, number, is_there, known) for number in range(count)]


def _task(
    place: Place, source: str, name: str, row: File, number: int, is_there: bool, known: Known
) -> Task:
    length, mtime, mode, _ = row
    offset = number * BLOCK
    copy = path_of(place.copy, name)
    existing, crc = path_of(place.target, name) if is_there else None, None
    if name in known.recorded:
        crc = known.recorded[name][-1][number]
    elif known.journal:
        crc = known.journal.get((name, offset, length, mtime))
        if crc is not None and os.path.lexists(copy):
            existing = copy
    span = min(BLOCK, length - offset)
    origin = path_of(source, name)
    return Task(name, origin, copy, existing, crc, offset, span, length, mtime, mode)


def _remove_others(copy: str, wanted: AbstractSet[str], listing: Listing) -> None:
    """What an earlier attempt has left in the copy, and this one does not put there again."""
    if os.path.isdir(copy) and not os.path.islink(copy):
        there = scan(copy, follow=False)
        for name in [*(there.files.keys() - wanted), *there.links]:
            os.unlink(path_of(copy, name))
        for name in there.folders:
            if name not in listing.folders:
                remove(path_of(copy, name))


def make_folders(copy: str, listing: Listing) -> None:
    """All folders of the copy, writable as long as it grows."""
    if "" not in listing.files:
        os.makedirs(copy, exist_ok=True)
    for name in listing.folders:
        os.makedirs(path_of(copy, name), exist_ok=True)


def check_space(place: Place, listing: Listing, needed: int) -> None:
    """Raises StageError where the file system cannot hold it; nothing has been written yet."""
    system = os.statvfs(place.folder)
    free = system.f_bavail * system.f_frsize
    where = shown(os.path.dirname(place.target))
    if needed * _SPARE > free:
        what = "%s are to be copied, and %s has %s free" % (size(needed), where, size(free))
        raise StageError("%s: no room: %s" % (shown(place.target), what))
    files = listing.names()
    if system.f_files and files > system.f_favail and needed:
        what = "%s, and %s takes %d more" % (counted(files, "file"), where, system.f_favail)
        raise StageError("%s: no room: %s" % (shown(place.target), what))


class Copying:
    """The processes that copy, what they say of it, and the journal of what they have done."""

    def __init__(self, place: Place, source: str, listing: Listing, total: int, lock: Lock) -> None:
        self._place, self._source, self._files, self._lock = place, source, listing.files, lock
        self._progress = Progress("stage %s" % shown(place.target), total, lock.beat)

    def blocks(self, tasks: Sequence[Task]) -> List[int]:
        """Each one's sum, with KEPT or FOUND where nothing was copied."""
        sizes = [task.length for task in tasks]
        results = [0] * len(tasks)

        def work(batch: Batch) -> List[int]:
            return [copy_block(task) for task in tasks[batch[0] : batch[1]]]

        def done(batch: Batch, crcs: List[int]) -> Nothing:
            first, end = batch
            results[first:end] = crcs
            rows = [
                (task.name, task.offset, task.size, task.mtime, crc % KEPT)
                for task, crc in zip(tasks[first:end], crcs)
            ]
            self._done(sum(sizes[first:end]), json.dumps(rows), min(crcs) < KEPT)
            return ()

        run_all(work, batches_of(sizes), done, self._progress.tick)
        for task, crc in zip(tasks, results):
            if task.length < task.size and not crc & KEPT:
                os.chmod(task.copy, task.mode)
                os.utime(task.copy, ns=(task.mtime, task.mtime))
        return results

    def small(self, names: Sequence[str]) -> Seen:
        """All of them, each by one process; what it sees then is their line in the journal too."""
        files = self._files
        sizes = [files[name][0] for name in names]
        copier = SmallFiles(self._source, self._place.copy)
        rows: List[str] = []

        def work(batch: Batch) -> str:
            found = {name: copier.copy(name, files[name]) for name in names[batch[0] : batch[1]]}
            return json.dumps(found, separators=(",", ":"))

        def done(batch: Batch, line: str) -> Nothing:
            rows.append(line[1:-1])
            self._done(sum(sizes[batch[0] : batch[1]]), line, True)
            return ()

        run_all(work, apart(batches_of(sizes)), done, self._progress.tick)
        copier.close()
        return Seen(names, rows)

    def _done(self, size: int, line: str, is_new: bool) -> None:
        if is_new:
            self._lock.moved()
        self._progress.add(size)
        self._place.append_journal(line)


def _mixed(tasks: Sequence[Task], crcs: Sequence[int]) -> Set[str]:
    """Files of which some blocks were kept, and others copied."""
    kept = {task.name for task, crc in zip(tasks, crcs) if crc & KEPT}
    return kept & {task.name for task, crc in zip(tasks, crcs) if not crc & KEPT}
