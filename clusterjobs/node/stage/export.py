"""Copies what is new in folders away: `export.py [--every S] [SOURCE TARGET ...] [--job FROM TO]`.

TARGET is a folder or s3://bucket/prefix. With `--every` it goes on until it is told to end. Nothing
is ever removed from a target. Of a job's folder (`--job`) all goes but `ssh`, where its keys are.
A file that is still being written is left for the next time, and one that says which checkpoint is
the latest goes last, so that it never names one that is not there. An export that fails is tried
again; its own exit code says so, and nobody else's is changed by it.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from stage_log import StageError, counted, end_tool, failure, say, shown, size, tool_environment

ROUNDS = 3  # of which the last is after 1 + 4 s: Slurm gives a job 30 s to end
SETTLED_SECONDS = 10  # a file that was written to since then may not be whole
STALL_SECONDS = 3600
LARGEST_MARKER = 1 << 20


class Export(NamedTuple):
    """A folder on its way out."""

    source: str
    target: str
    without: Optional[str] = None  # a folder in it that stays here


def export(one: Export, settled: float) -> None:
    """Bring the target up to date. Raises StageError where that cannot be done."""
    if not os.path.isdir(one.source):
        return  # nothing has been written yet
    is_bucket = one.target.startswith("s3://")
    left = _to_bucket(one) if is_bucket else _to_folder(one, settled)
    if left and not settled:
        raise StageError("%s: written to while it was copied" % shown(left[0]))


# ------------------------------------------------------------------ to a folder


def _to_folder(one: Export, settled: float) -> List[str]:
    """Gives what was left for the next time; with it, what says which checkpoint is the latest."""
    source, target, _ = one
    left: List[str] = []
    began, files, total = time.time(), 0, 0
    for name, status in _files(one):
        origin, path = os.path.join(source, name), os.path.join(target, name)
        is_young = settled and status.st_mtime > began - settled
        if is_young or (left and "latest" in os.path.basename(name)):
            left.append(origin)
        elif not _is_there(path, status):
            if _copy(origin, path, status):
                files, total = files + 1, total + status.st_size
            else:
                left.append(origin)
    if files:
        said = (shown(source), shown(target), counted(files, "file"), size(total))
        say("export %s: to %s, %s, %s" % said)
    return left


def _files(one: Export) -> Iterator[Tuple[str, os.stat_result]]:
    """Files in the order in which they were written; those that name the latest one come last."""
    source = one.source
    found: List[Tuple[Any, str, os.stat_result]] = []
    for above, folders, names in os.walk(source):
        if above == source and one.without in folders:
            folders.remove(one.without)
        for name in names:
            path = os.path.join(above, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # a training may remove old checkpoints meanwhile
                continue
            if stat.S_ISREG(status.st_mode):
                rank = ("latest" in name, status.st_mtime_ns)
                found.append((rank, os.path.relpath(path, source), status))
    for _, name, status in sorted(found, key=lambda file: file[:2]):
        yield name, status


def _is_there(path: str, status: os.stat_result) -> bool:
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return there.st_size == status.st_size and there.st_mtime_ns == status.st_mtime_ns


def _copy(source: str, path: str, status: os.stat_result) -> bool:
    """Whole or not at all: under another name first. False: it was written to meanwhile."""
    folder, name = os.path.split(path)
    partial = os.path.join(folder, ".%s.export" % name[:200])
    try:
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(source, partial)
        file = os.open(partial, os.O_RDONLY)
        try:
            os.fsync(file)
            copied = os.fstat(file).st_size
        finally:
            os.close(file)
        now = os.stat(source)
        if (now.st_size, now.st_mtime_ns) != (copied, status.st_mtime_ns):
            return False
        os.chmod(partial, stat.S_IMODE(status.st_mode))
        os.utime(partial, ns=(status.st_mtime_ns, status.st_mtime_ns))
        os.replace(partial, path)
    except FileNotFoundError as error:
        if os.path.exists(source):
            raise failure(path, error) from None
    except OSError as error:
        raise failure(path, error) from None
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return True


# ------------------------------------------------------------------ to a bucket


def _to_bucket(one: Export) -> List[str]:
    """By s5cmd or aws, which check what they send; an object is there whole or not at all.

    Gives what could not be read, for it was written to.
    """
    source, target = os.path.abspath(one.source), one.target
    s5cmd, aws = shutil.which("s5cmd"), shutil.which("aws")
    if s5cmd:
        sync, end = [s5cmd, "--log", "error", "sync"], "/"
    elif aws:
        sync, end = [aws, "s3", "sync", "--only-show-errors"], ""
    else:
        raise StageError("%s: neither s5cmd nor aws is on this node" % target)
    to = target.rstrip("/") + end
    options = ["--no-follow-symlinks", *_excluded("*latest*", source)]
    if one.without:
        options += _excluded(one.without + "/*", source)
    with tempfile.TemporaryDirectory(prefix="export.") as aside:
        left = _put_aside(one, aside)
        _run([*sync, *options, source + end, to], target)
        if os.listdir(aside):
            _run([*sync, aside + end, to], target)
    return left


def _put_aside(one: Export, aside: str) -> List[str]:
    """What says now which checkpoint is the latest: all that it can name is there already.

    Large files of such names are checkpoints themselves, and links to them do.
    """
    left = []
    for name, status in _files(one):
        origin, path = os.path.join(os.path.abspath(one.source), name), os.path.join(aside, name)
        if "latest" not in name:
            continue
        if status.st_size > LARGEST_MARKER:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(origin, path)
        elif not _copy(origin, path, status):
            left.append(origin)
    return left


def _excluded(pattern: str, source: str) -> List[str]:
    """What aws holds against names below the source, s5cmd's sync holds against whole paths."""
    whole = "%s/%s" % (source.replace("[", "?"), pattern)
    short = [] if fnmatch.fnmatchcase(source, pattern) else ["--exclude", pattern]
    return [*short, "--exclude", whole]


def _run(command: List[str], target: str) -> None:
    tool = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=tool_environment(),
        start_new_session=True,
    )
    try:
        _, said = tool.communicate(timeout=STALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise StageError("%s: nothing moves" % target) from None
    finally:
        end_tool(tool)
    if tool.returncode:
        lines = os.fsdecode(said).strip().splitlines() or ["no reason given"]
        raise StageError("%s: %s" % (target, shown(lines[-1])))


# ------------------------------------------------------------------ the command line


class Ended(BaseException):
    """A signal asked for the end."""


def _end(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise Ended(number)


def main() -> int:
    """0: all is there; 1: not all, and a message says why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=float, metavar="SECONDS")
    parser.add_argument("places", nargs="*", metavar="SOURCE TARGET")
    parser.add_argument("--job", nargs=2, action="append", default=[], metavar=("FROM", "TO"))
    options = parser.parse_args()
    exports = [Export(*pair) for pair in zip(options.places[::2], options.places[1::2])]
    exports += [Export(source, target, "ssh") for source, target in options.job]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        while options.every:
            for one in exports:
                _tried(one, SETTLED_SECONDS, 1)
            time.sleep(options.every)
        good = [_tried(one, 0, ROUNDS) for one in exports]
        return 0 if all(good) else 1
    except Ended as ended:
        return 128 + int(ended.args[0])


def _tried(one: Export, settled: float, rounds: int) -> bool:
    for number in range(rounds):
        try:
            export(one, settled)
            return True
        except StageError as error:
            say("export failed: %s" % error)
        except OSError as error:
            say("export failed: %s" % failure(str(error.filename or one.target), error))
        if number + 1 < rounds:
            time.sleep(4**number)
    if rounds > 1:
        say("export %s: NOT all of it is in %s" % (shown(one.source), shown(one.target)))
    return False


if __name__ == "__main__":
    sys.exit(main())
