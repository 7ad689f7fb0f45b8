"""The last look at a target: what is there now, all of it, as the record keeps it."""

from __future__ import annotations

import json
import os
import stat
from typing import Any, Iterable, List, Tuple

from stage_list import Listing, path_of
from stage_log import StageError, shown
from stage_pool import batches_of, run_all
from stage_record import Seen, Sums


def look(target: str, listing: Listing, sums: Sums, seen: Seen, is_new: bool) -> List[str]:
    """The rows of all files, as the record keeps them. Raises StageError where one is not there.

    Where the whole target is new, what was seen of a small file when it was copied still holds, as
    long as no name is missing. A file that got its place by itself has a new ctime.
    """
    for is_link, names in ((False, listing.folders), (True, listing.links)):
        for name in names:
            path = path_of(target, name)
            if os.path.islink(path) != is_link or not (is_link or os.path.isdir(path)):
                raise _missing(target, name)
    if is_new and seen.names and _count_names(target, listing) == listing.names():
        others = listing.files.keys() - seen.names
        return [*seen.rows, *_rows_of(others, target, listing, sums)]
    return _rows_of(listing.files, target, listing, {**sums, **seen.sums()})


def _count_names(target: str, listing: Listing) -> int:
    if "" in listing.files:  # which was itself renamed
        return 0
    return sum(len(os.listdir(path_of(target, name))) for name in ("", *listing.folders))


def _rows_of(those: Iterable[str], target: str, listing: Listing, sums: Sums) -> List[str]:
    names = list(those)
    root = os.open(target if os.path.isdir(target) else "/", os.O_RDONLY)
    found: List[str] = []

    def work(batch: Tuple[int, int]) -> str:
        rows = {}
        for name in names[batch[0] : batch[1]]:
            size, mtime, mode, _ = listing.files[name]
            try:
                there = os.stat(name or target, dir_fd=root, follow_symlinks=False)
            except FileNotFoundError:
                raise _missing(target, name) from None
            if there.st_size != size or not stat.S_ISREG(there.st_mode):
                raise _missing(target, name)
            times = there.st_mtime_ns, there.st_ctime_ns
            rows[name] = (size, mtime, mode, *times, sums[name])
        return json.dumps(rows, separators=(",", ":"))[1:-1]

    def done(_: Any, rows: str) -> Tuple[()]:
        found.append(rows)
        return ()

    try:
        run_all(work, batches_of([0] * len(names)), done)
    finally:
        os.close(root)
    return found


def _missing(target: str, name: str) -> StageError:
    return StageError("%s: was copied, and is not there" % shown(path_of(target, name)))
