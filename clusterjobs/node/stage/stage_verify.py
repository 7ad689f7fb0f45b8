"""Verify a whole target before it is recorded as complete."""

from __future__ import annotations

import json
import os
import stat
from typing import Any, List, Sequence, Tuple

from stage_list import Listing, path_of
from stage_log import StageError, printable
from stage_pool import batches, run_parallel
from stage_record import Checksums, StagedCopy


def verify_target(target: str, copy: StagedCopy, is_new: bool) -> List[str]:
    """The rows of all files for the record. Raises StageError if one is missing.

    If the whole target is new, the rows of small files are still valid, provided that no name is
    missing. A file that was renamed by itself has a new ctime, and needs a new row.
    """
    listing, small = copy.listing, copy.small
    for is_link, names in ((False, listing.folders), (True, listing.links)):
        for name in names:
            path = path_of(target, name)
            if os.path.islink(path) != is_link or not (is_link or os.path.isdir(path)):
                raise _missing(target, name)
    if is_new and small.names and _count_names(target, listing) == listing.size():
        others = list(listing.files.keys() - small.names)
        return [*small.rows, *_record_rows(others, target, listing, copy.checksums)]
    checksums = {**copy.checksums, **small.checksums()}
    return _record_rows(list(listing.files), target, listing, checksums)


def _count_names(target: str, listing: Listing) -> int:
    if "" in listing.files:  # a single file, which was itself renamed
        return 0
    return sum(len(os.listdir(path_of(target, name))) for name in ("", *listing.folders))


def _record_rows(
    names: Sequence[str], target: str, listing: Listing, checksums: Checksums
) -> List[str]:
    root = os.open(target if os.path.isdir(target) else "/", os.O_RDONLY)
    found: List[str] = []

    def work(batch: Tuple[int, int]) -> str:
        rows = {}
        for name in names[batch[0] : batch[1]]:
            size, mtime, mode, changed = listing.files[name]
            try:
                status = os.stat(name or target, dir_fd=root, follow_symlinks=False)
            except FileNotFoundError:
                raise _missing(target, name) from None
            if status.st_size != size or not stat.S_ISREG(status.st_mode):
                raise _missing(target, name)
            times = status.st_mtime_ns, status.st_ctime_ns
            rows[name] = (size, mtime, mode, changed, *times, checksums[name])
        return json.dumps(rows, separators=(",", ":"))[1:-1]

    def done(_: Any, rows: str) -> Tuple[()]:
        found.append(rows)
        return ()

    try:
        run_parallel(work, batches([0] * len(names)), done)
    finally:
        os.close(root)
    return found


def _missing(target: str, name: str) -> StageError:
    return StageError(
        "%s: was copied, but is missing or has another size" % printable(path_of(target, name))
    )
