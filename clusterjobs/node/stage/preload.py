"""Restore the contents of a folder on Lustre from its bucket, and wait: `preload.py FOLDER`.

The objects of a linked bucket appear as released files: each one is fetched when it is first read,
while a GPU waits. `lfs hsm_restore` requests them beforehand. Any user may call it, the servers
copy, and a second request is harmless, so jobs that start together need no lock.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import Any, Dict, Iterator, List, Sequence

from stage_lab import is_lab
from stage_list import path_of, scan
from stage_log import (
    Progress,
    SourceError,
    StageError,
    exit_code_of,
    format_size,
    log,
    mark_progress,
    plural,
    printable,
    report_files,
)
from stage_tool import ToolError, answer_of

MAX_PENDING = 512  # files requested and not restored yet: this limits the servers' queue
MAX_NAMES = 256  # on one command line
STALL_SECONDS = 1800
ROUNDS = 3
_POLL_SECONDS = 0.5


def preload(folder: str) -> None:
    """Raises StageError if a file is not restored."""
    lfs = shutil.which("lfs")
    if lfs is None and not is_lab():
        raise SourceError("%s: no lfs on this node, so this is not Lustre" % printable(folder))
    files = scan(folder, follow=False).files if os.path.isdir(folder) else {}
    sizes = {path_of(folder, name): row[0] for name, row in files.items()}
    if not sizes:
        what = "the folder is empty" if os.path.isdir(folder) else "no such folder"
        raise SourceError(
            "%s: %s: is it associated with the bucket (cluster.yaml; pcluster update-cluster), "
            "and has FSx listed it?" % (printable(folder), what)
        )
    if lfs is None:
        report_files("preload %s" % printable(folder), "a folder of the lab", sizes.values())
        return
    for number in range(ROUNDS + 1):
        released = _released(lfs, list(sizes))
        if not released:
            break
        if number == ROUNDS:
            what = "not restored (%s)" % plural(len(released), "file")
            raise StageError("%s: %s" % (printable(released[0]), what))
        system, needed = os.statvfs(folder), sum(sizes[path] for path in released)
        if needed > system.f_bavail * system.f_frsize:
            free = format_size(system.f_bavail * system.f_frsize)
            what = "not enough space: %s needed, %s free" % (format_size(needed), free)
            raise StageError("%s: %s" % (printable(folder), what))
        _restore(lfs, folder, {path: sizes[path] for path in released})
    report_files("preload %s" % printable(folder), "up to date", sizes.values())


def _restore(lfs: str, folder: str, wanted: Dict[str, int]) -> None:
    """Request all files, MAX_PENDING at a time, and wait until Lustre has finished with them."""
    waiting = list(wanted)
    pending: List[str] = []
    progress = Progress("preload %s" % printable(folder), sum(wanted.values()))
    last_progress = time.monotonic()
    while waiting or pending:
        more, waiting = waiting[: MAX_PENDING - len(pending)], waiting[MAX_PENDING - len(pending) :]
        for batch in _batches(more):
            _run(lfs, "hsm_restore", batch)
        pending += more
        states = _lfs_results(lfs, "hsm_action", pending)
        unfinished = [path for path, state in states if state != "NOOP"]
        if len(unfinished) < len(pending):
            last_progress = time.monotonic()
            mark_progress()
            progress.add(sum(wanted[path] for path in set(pending) - set(unfinished)))
        elif time.monotonic() - last_progress > STALL_SECONDS:
            raise StageError("%s: no progress: not restored" % printable(unfinished[0]))
        else:
            time.sleep(_POLL_SECONDS)
        pending = unfinished
        progress.tick()


def _released(lfs: str, paths: Sequence[str]) -> List[str]:
    """The files whose contents are only in the bucket."""
    states = _lfs_results(lfs, "hsm_state", paths)
    return [path for path, state in states if "released" in state.replace(",", " ").split()]


def _lfs_results(lfs: str, verb: str, paths: Sequence[str]) -> Iterator[Any]:
    """lfs's line for each file: `PATH: NOOP`, `PATH: (0x0000000d) released exists archived, ...`.

    A name may contain a line break, so lines are found by the names.
    Source: Lustre's lustre/utils/lfs.c, lfs_hsm_state and lfs_hsm_action.
    """
    for batch in _batches(paths):
        text = _run(lfs, verb, batch)
        for path in batch:
            start = path + ":"
            if not text.startswith(start):
                raise StageError("%s: not in the output of lfs %s" % (printable(path), verb))
            state, _, text = text[len(start) :].partition("\n")
            yield path, state.strip()


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[at : at + MAX_NAMES] for at in range(0, len(paths), MAX_NAMES))


def _run(lfs: str, verb: str, paths: Sequence[str]) -> str:
    try:
        return os.fsdecode(answer_of([lfs, verb, *paths], STALL_SECONDS))
    except ToolError as error:
        raise StageError("lfs %s: %s" % (verb, printable(str(error).splitlines()[-1]))) from None


def _stop(number: int, _frame: Any) -> None:
    log("preload: stopped; Lustre continues with the requested files")
    os._exit(128 + number)  # at once: lfs may hang


def main() -> int:
    """0: all contents are restored; 1: they are not, and a message says why."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    return int(exit_code_of("preload", folder, lambda: preload(folder)))


if __name__ == "__main__":
    sys.exit(main())
