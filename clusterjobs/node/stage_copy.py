"""The files of a folder copied beside the target, as far as they are not there already."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Set, Tuple

from stage_files import BLOCK, KEPT, Entry, Task, copy_block, scan
from stage_lock import Lock
from stage_log import Progress, StageError, counted, shown, size
from stage_pool import batches_of, run_all
from stage_record import Place, Sums, compare, rows_of

_SPARE = 1.01  # a file system needs a little for itself


def bring_files(
    place: Place,
    listing: Dict[str, Entry],
    record: Optional[Dict[str, Any]],
    lock: Lock,
    reread: bool,
) -> Sums:
    """Copy what the target lacks to `place.copy`. `reread`: even what looks sound is read again.

    Gives the sums of all files, by name. Raises StageError.
    """
    sums: Sums = {}
    tasks: List[Task] = []
    names: List[str] = []
    for name, blocks in _blocks(place, listing, record, reread):
        if isinstance(blocks[0], Task):
            tasks += blocks
            names += [name] * len(blocks)
        else:
            sums[name] = blocks
    check_space(place, listing, sum(task.length for task in tasks if task.existing is None))
    make_folders(place.copy, listing)
    results = _copied(place, tasks, names, lock)
    mixed = _mixed(names, results)
    again = [n for n, name in enumerate(names) if name in mixed and results[n] & KEPT]
    if again:  # a file is made of one or the other, never of both
        forced = [tasks[number]._replace(existing=None) for number in again]
        for number, crc in zip(again, _copied(place, forced, [names[n] for n in again], lock)):
            results[number] = crc
    for name, crc in zip(names, results):
        sums.setdefault(name, []).append(crc % KEPT)
    return sums


def _blocks(
    place: Place, listing: Dict[str, Entry], record: Optional[Dict[str, Any]], reread: bool
) -> Any:
    """Of each file its name, with its tasks, or with its sums where nothing is to be done."""
    journal = place.load_journal()
    known = record["files"] if record else {}
    old = record["state"] if record else {}
    now = rows_of(listing)
    doubtful = set(known) if reread else set()
    for names in compare(place.target, record) if record else ():
        doubtful.update(names)
    there = scan(place.target, follow=False) if os.path.exists(place.target) else {}
    for name, entry in listing.items():
        if entry.kind != "file":
            continue
        recorded = known.get(name) if old.get(name) == now[name] else None
        if recorded and name not in doubtful:
            yield name, recorded[3]
            continue
        is_there = name in there and there[name].kind == "file" and there[name].size == entry.size
        yield (
            name,
            [
                _task(place, name, entry, number, recorded, journal, is_there)
                for number in range(max(1, -(-entry.size // BLOCK)))
            ],
        )


def _task(
    place: Place,
    name: str,
    entry: Entry,
    number: int,
    recorded: Optional[List[Any]],
    journal: Dict[Tuple[str, int, int, int], int],
    is_there: bool,
) -> Task:
    offset = number * BLOCK
    copy = path_of(place.copy, name)
    existing, known = path_of(place.target, name) if is_there else None, None
    if recorded:
        known = recorded[3][number]
    elif journal:
        known = journal.get((name, offset, entry.size, entry.mtime))
        if known is not None and os.path.lexists(copy):
            existing = copy
    length = min(BLOCK, entry.size - offset)
    return Task(
        entry.origin, copy, existing, known, offset, length, entry.size, entry.mtime, entry.mode
    )


def path_of(folder: str, name: str) -> str:
    """A file's path; the name "" is the whole of it."""
    return folder + "/" + name if name else folder


def make_folders(copy: str, listing: Dict[str, Entry]) -> None:
    """All folders of the copy, writable as long as it grows."""
    for name, entry in listing.items():
        if entry.kind == "folder" or not name:
            os.makedirs(path_of(copy, name) if name else os.path.dirname(copy), exist_ok=True)
    if "" not in listing:
        os.makedirs(copy, exist_ok=True)


def check_space(place: Place, listing: Dict[str, Entry], needed: int) -> None:
    """Raises StageError where the file system cannot hold it; nothing has been written yet."""
    system = os.statvfs(place.folder)
    free = system.f_bavail * system.f_frsize
    where = shown(os.path.dirname(place.target))
    if needed * _SPARE > free:
        what = "%s are to be copied, and %s has %s free" % (size(needed), where, size(free))
        raise StageError("%s: no room: %s" % (shown(place.target), what))
    if system.f_files and len(listing) > system.f_favail and needed:
        what = "%s, and %s takes %d more" % (counted(len(listing), "file"), where, system.f_favail)
        raise StageError("%s: no room: %s" % (shown(place.target), what))


def _copied(place: Place, tasks: List[Task], names: List[str], lock: Lock) -> List[int]:
    """Each task's sum, with KEPT or FOUND where nothing was copied. Each batch is journalled."""
    results = [0] * len(tasks)
    progress = Progress(
        "stage %s" % shown(place.target), sum(task.length for task in tasks), lock.beat
    )

    def done(first: int, end: int, sums: Any) -> None:
        results[first:end] = sums
        if min(sums) < KEPT:
            lock.moved()
        rows = []
        for number in range(first, end):
            task = tasks[number]
            progress.add(task.length)
            rows.append((names[number], task.offset, task.size, task.mtime, results[number] % KEPT))
        place.append_journal(rows)

    sizes = [task.length for task in tasks]
    run_all(lambda number: copy_block(tasks[number]), batches_of(sizes), done, progress.tick)
    _finish_large(tasks, results)
    return results


def _finish_large(tasks: List[Task], results: List[int]) -> None:
    """Permissions and time of files that were copied in blocks."""
    for task, crc in zip(tasks, results):
        if task.length < task.size and not crc & KEPT:
            os.chmod(task.copy, task.mode)
            os.utime(task.copy, ns=(task.mtime, task.mtime))


def _mixed(names: List[str], results: List[int]) -> Set[str]:
    kept = {name for name, crc in zip(names, results) if crc & KEPT}
    copied = {name for name, crc in zip(names, results) if not crc & KEPT}
    return kept & copied
