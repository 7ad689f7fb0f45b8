"""Asks FSx for Lustre to fetch a folder's files from their bucket, and waits: `preload.py FOLDER`.

FSx shows a bucket's objects as files that are released: their contents come at the first read, file
by file, while a GPU waits. `lfs hsm_restore` asks for them beforehand. Any user may ask, the file
servers do the copying, and asking twice does no harm: jobs that start together need no lock.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Sequence

from stage_log import Progress, StageError, counted, failure, mark, say, shown, size, tell

AT_ONCE = 512  # files asked for and not there yet: a list of bounded length for the file servers
BATCH_BYTES = 64 << 10  # of names on one command line
STALL_SECONDS = 1800
ROUNDS = 3
_POLL_SECONDS = 0.5


def preload(folder: str) -> None:
    """Raises StageError where a file does not come."""
    lfs = shutil.which("lfs")
    if lfs is None:
        raise StageError(
            "%s: lfs is not on this node, so this is no FSx for Lustre" % shown(folder)
        )
    sizes = _files(folder)
    if not sizes:
        what = "no files are there" if os.path.isdir(folder) else "there is no such folder"
        raise StageError(
            "%s: %s: is it associated with the bucket (cluster.yaml; pcluster update-cluster), "
            "and has FSx listed it?" % (shown(folder), what)
        )
    for number in range(ROUNDS + 1):
        released = _released(lfs, list(sizes))
        if not released:
            break
        if number == ROUNDS:
            what = "its contents did not come (%s)" % counted(len(released), "file")
            raise StageError("%s: %s" % (shown(released[0]), what))
        _check_space(folder, sum(sizes[path] for path in released))
        _restore(lfs, folder, {path: sizes[path] for path in released})
    total = size(sum(sizes.values()))
    tell("preload %s" % shown(folder), "is there, %s, %s" % (counted(len(sizes), "file"), total))


def _files(folder: str) -> Dict[str, int]:
    """Sizes by path. No files where there is no such folder, as without the association."""
    found: Dict[str, int] = {}

    def complain(error: OSError) -> None:
        if not (isinstance(error, FileNotFoundError) and error.filename == folder):
            raise failure(str(error.filename), error)

    for above, _, names in os.walk(folder, onerror=complain):
        for name in names:
            path = os.path.join(above, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                found[path] = status.st_size
    return found


def _check_space(folder: str, needed: int) -> None:
    system = os.statvfs(folder)
    free = system.f_bavail * system.f_frsize
    if needed > free:
        what = "%s are to come, and %s are free" % (size(needed), size(free))
        raise StageError("%s: no room: %s" % (shown(folder), what))


def _restore(lfs: str, folder: str, wanted: Dict[str, int]) -> None:
    """Ask for all, AT_ONCE of them at a time, until Lustre has nothing left to do with any."""
    waiting, asked = list(wanted), []  # type: List[str], List[str]
    progress = Progress("preload %s" % shown(folder), sum(wanted.values()), lambda: None)
    moved = time.monotonic()
    while waiting or asked:
        more, waiting = waiting[: AT_ONCE - len(asked)], waiting[AT_ONCE - len(asked) :]
        for batch in _batches(more):
            _run(lfs, "hsm_restore", batch)
        asked += more
        busy = [path for path, said in _answers(lfs, "hsm_action", asked) if said != "NOOP"]
        if len(busy) < len(asked):
            moved = time.monotonic()
            mark()
            progress.add(sum(wanted[path] for path in set(asked) - set(busy)))
        elif time.monotonic() - moved > STALL_SECONDS:
            raise StageError("%s: does not come" % shown(busy[0]))
        else:
            time.sleep(_POLL_SECONDS)
        asked = busy
        progress.tick()


def _released(lfs: str, paths: Sequence[str]) -> List[str]:
    """The files whose contents are still in the bucket alone."""
    answers = _answers(lfs, "hsm_state", paths)
    return [path for path, said in answers if "released" in said.replace(",", " ").split()]


def _answers(lfs: str, verb: str, paths: Sequence[str]) -> Iterator[Any]:
    """What lfs says of each file: `PATH: NOOP`, `PATH: (0x0000000d) released exists archived, ...`.

    A name may hold a line break, so that lines are found by the names that were asked for.
    Source: Lustre's lustre/utils/lfs.c, lfs_hsm_state and lfs_hsm_action.
    """
    for batch in _batches(paths):
        text = _run(lfs, verb, batch)
        for path in batch:
            start = path + ":"
            if not text.startswith(start):
                raise StageError("%s: lfs %s says nothing of it" % (shown(path), verb))
            said, _, text = text[len(start) :].partition("\n")
            yield path, said.strip()


def _batches(paths: Sequence[str]) -> Iterator[List[str]]:
    batch: List[str] = []
    length = 0
    for path in paths:
        if batch and length + len(path) > BATCH_BYTES:
            yield batch
            batch, length = [], 0
        batch.append(path)
        length += len(path) + 1
    if batch:
        yield batch


def _run(lfs: str, verb: str, paths: Sequence[str]) -> str:
    done = subprocess.run(
        [lfs, verb, *paths], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=STALL_SECONDS
    )
    if done.returncode:
        said = os.fsdecode(done.stderr).strip().splitlines() or ["no reason given"]
        raise StageError("lfs %s: %s" % (verb, shown(said[-1])))
    return os.fsdecode(done.stdout)


def _end(number: int, _frame: Any) -> None:
    say("preload: told to end; FSx goes on with what it was asked for")
    os._exit(128 + number)


def main() -> int:
    """0: the contents are there; 1: they are not, and a message says why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        preload(options.folder)
    except StageError as error:
        tell("preload failed", str(error))
        return 1
    except (OSError, subprocess.TimeoutExpired) as error:
        tell("preload failed", "%s: %s" % (shown(options.folder), error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
