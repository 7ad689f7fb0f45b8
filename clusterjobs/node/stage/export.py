"""Copy new and changed files: `export.py [--every S] SOURCE TARGET [SOURCE TARGET ...]`.

TARGET is a folder or s3://bucket/prefix. With `--every` it repeats until it gets SIGTERM. Nothing
is ever removed from a target. A file that is still being written is left for the next round. A
marker file that names the latest checkpoint is copied last, so that it never names a missing one.
A failed export is retried.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from typing import Any, Iterator, List, NamedTuple, Tuple

from stage_lab import folder_for
from stage_log import (
    StageError,
    Stopped,
    format_size,
    kill_tool,
    log,
    os_failure,
    plural,
    printable,
    raise_on_signals,
    tool_environment,
)

ROUNDS = 3  # 1 and 4 s apart: Slurm gives a job 30 s to end
SETTLED_SECONDS = 10  # a file written to more recently may be incomplete
STALL_SECONDS = 3600
MAX_MARKER_BYTES = 1 << 20


class Export(NamedTuple):
    """A folder to be copied."""

    source: str
    target: str


def export(one: Export, settled: float) -> None:
    """Update the target. Raises StageError if that fails."""
    if not os.path.isdir(one.source):
        return  # nothing has been written yet
    folder = folder_for(one.target) or one.target
    is_bucket = folder.startswith("s3://")
    left = _to_bucket(one) if is_bucket else _to_folder(Export(one.source, folder), settled)
    if left and not settled:
        raise StageError("%s: changed while it was copied" % printable(left[0]))


# ------------------------------------------------------------------ to a folder


def _to_folder(one: Export, settled: float) -> List[str]:
    """Returns the files left for the next round; if there are any, the markers are left, too."""
    source, target = one
    left: List[str] = []
    started, files, total = time.time(), 0, 0
    for name, status in _files(one):
        origin, path = os.path.join(source, name), os.path.join(target, name)
        is_recent = settled and status.st_mtime > started - settled
        if is_recent or (left and "latest" in os.path.basename(name)):
            left.append(origin)
        elif not _is_up_to_date(path, status):
            if _copy(origin, path, status):
                files, total = files + 1, total + status.st_size
            else:
                left.append(origin)
    if files:
        copied = "%s, %s" % (plural(files, "file"), format_size(total))
        log("export %s: to %s, %s" % (printable(source), printable(target), copied))
    return left


def _files(one: Export) -> Iterator[Tuple[str, os.stat_result]]:
    """Files in the order in which they were written; markers come last."""
    source = one.source
    found: List[Tuple[Any, str, os.stat_result]] = []
    for parent, _, names in os.walk(source):
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # the training may remove old checkpoints
                continue
            if stat.S_ISREG(status.st_mode):
                rank = ("latest" in name, status.st_mtime_ns)
                found.append((rank, os.path.relpath(path, source), status))
    for _, name, status in sorted(found, key=lambda file: file[:2]):
        yield name, status


def _is_up_to_date(path: str, status: os.stat_result) -> bool:
    try:
        copy = os.lstat(path)
    except FileNotFoundError:
        return False
    return copy.st_size == status.st_size and copy.st_mtime_ns == status.st_mtime_ns


def _copy(source: str, path: str, status: os.stat_result) -> bool:
    """Copy atomically, by a temporary name. False: the file changed while it was copied."""
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
            raise os_failure(path, error) from None
    except OSError as error:
        raise os_failure(path, error) from None
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return True


# ------------------------------------------------------------------ to a bucket


def _to_bucket(one: Export) -> List[str]:
    """Upload with s5cmd or aws, which verify what they send; objects are replaced atomically.

    Returns the markers that changed while they were read.
    """
    source, target = os.path.abspath(one.source), one.target
    s5cmd, aws = shutil.which("s5cmd"), shutil.which("aws")
    if s5cmd:
        sync, end = [s5cmd, "--log", "error", "sync"], "/"
    elif aws:
        sync, end = [aws, "s3", "sync", "--only-show-errors"], ""
    else:
        raise StageError("%s: neither s5cmd nor aws is installed on this node" % target)
    to = target.rstrip("/") + end
    options = ["--no-follow-symlinks", *_excluded("*latest*", source)]
    with tempfile.TemporaryDirectory(prefix="export.") as aside:
        left = _copy_markers(one, aside)
        _run([*sync, *options, source + end, to], target)
        if os.listdir(aside):
            _run([*sync, aside + end, to], target)
    return left


def _copy_markers(one: Export, aside: str) -> List[str]:
    """Copy the markers before the upload: everything that they name exists already.

    Large files of such names are checkpoints themselves, and need only links.
    """
    left = []
    for name, status in _files(one):
        origin, path = os.path.join(os.path.abspath(one.source), name), os.path.join(aside, name)
        if "latest" not in name:
            continue
        if status.st_size > MAX_MARKER_BYTES:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(origin, path)
        elif not _copy(origin, path, status):
            left.append(origin)
    return left


def _excluded(pattern: str, source: str) -> List[str]:
    """aws compares a pattern with names below the source, s5cmd's sync with whole paths."""
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
        _, errors = tool.communicate(timeout=STALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise StageError("%s: no progress" % target) from None
    finally:
        kill_tool(tool)
    if tool.returncode:
        lines = os.fsdecode(errors).strip().splitlines() or ["no message"]
        raise StageError("%s: %s" % (target, printable(lines[-1])))


# ------------------------------------------------------------------ the command line


def main() -> int:
    """0: everything is copied; 1: not everything, and a message says why."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=float, metavar="SECONDS")
    parser.add_argument("folders", nargs="*", metavar="SOURCE TARGET")
    options = parser.parse_args()
    exports = [Export(*pair) for pair in zip(options.folders[::2], options.folders[1::2])]
    raise_on_signals()
    try:
        while options.every:
            for one in exports:
                _export_with_retries(one, SETTLED_SECONDS, 1)
            time.sleep(options.every)
        good = [_export_with_retries(one, 0, ROUNDS) for one in exports]
        return 0 if all(good) else 1
    except Stopped as stopped:
        return int(stopped.exit_code)


def _export_with_retries(one: Export, settled: float, rounds: int) -> bool:
    for number in range(rounds):
        try:
            export(one, settled)
            return True
        except StageError as error:
            log("export failed: %s" % error)
        except OSError as error:
            log("export failed: %s" % os_failure(str(error.filename or one.target), error))
        if number + 1 < rounds:
            time.sleep(4**number)
    if rounds > 1:
        log("export %s: INCOMPLETE in %s" % (printable(one.source), printable(one.target)))
    return False


if __name__ == "__main__":
    sys.exit(main())
