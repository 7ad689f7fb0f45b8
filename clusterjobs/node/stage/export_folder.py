"""Export to a folder, and what was exported from one source path to a target.

No planted link is followed. A hidden file or object in the target says what was exported: it
outlives the source, and other files there are never overwritten. A file is announced in it before
it is copied, so that an export that was killed is known as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import time
from typing import IO, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from safe_folder import check_path, open_trusted
from stage_log import (
    EXPORT_RECORD,
    SourceError,
    counted,
    format_size,
    log,
    not_ours,
    os_failure,
    plural,
    printable,
)
from stage_record import is_same_file

_VERSION = 2
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
State = List[int]  # size and mtime
Record = Dict[str, List[State]]  # of each exported file the states that the target may have


class Export(NamedTuple):
    """A folder to be copied. `overwrite`: also what was not exported from it."""

    source: str
    target: str
    overwrite: bool = False

    @property
    def path(self) -> str:
        """The source as the record knows it: a new folder of this name continues the export."""
        return os.path.abspath(self.source)

    @property
    def record_name(self) -> str:
        return "%s%s.json" % (
            EXPORT_RECORD,
            hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12],
        )


class _ChangedError(Exception):
    """The file changed while it was copied."""


def export_to_folder(one: Export, settled: float) -> List[str]:
    """Returns the files left for the next round; if there are any, the markers are left, too.

    Raises StageError.
    """
    left: List[str] = []
    complete: List[Tuple[str, os.stat_result]] = []
    started = time.time()
    for name, status in files_of(one.source):
        if settled and status.st_mtime > started - settled:  # it may still be written to
            left.append(os.path.join(one.source, name))
        else:
            complete.append((name, status))
    checked: Set[str] = set()
    files, total = 0, 0
    for name, status in _announce(one, complete, checked) if complete else ():
        origin = os.path.join(one.source, name)
        is_marker = "latest" in os.path.basename(name)
        if left and is_marker:
            left.append(origin)
        elif copy_file(origin, os.path.join(one.target, name), status, checked):
            files, total = files + 1, total + status.st_size
        else:
            left.append(origin)
    if files:
        copied = "%s, %s" % (plural(files, "file"), format_size(total))
        log("export %s: to %s, %s" % (printable(one.source), printable(one.target), copied))
    return left


def _announce(
    one: Export, files: Sequence[Tuple[str, os.stat_result]], checked: Set[str]
) -> List[Tuple[str, os.stat_result]]:
    """Record the files, and return those that the target lacks.

    Raises StageError if the target has files of these names that were not exported. Files that are
    the same count as exported: they may have been copied back from the target.
    """
    record = parse_record(one, _read_record(one))
    announced: Record = {}
    missing: List[Tuple[str, os.stat_result]] = []
    foreign: List[str] = []
    changed: List[str] = []
    for name, status in files:
        path, new = os.path.join(one.target, name), state_of(status)
        now = _state_in(path)
        is_known = now in record.get(name, ())
        if now != new:
            missing.append((name, status))
        elif is_known:
            continue
        announced[name] = [new]
        if now in (None, new):
            continue
        if is_known or is_same_file(os.path.join(one.source, name), path):
            announced[name].append(now)
        else:
            (changed if name in record else foreign).append(path)
    if not one.overwrite:
        refuse(one.source, foreign, changed)
    if announced:
        path = os.path.join(one.target, one.record_name)
        try:
            with _replacing(path, checked, 0o644) as file:
                file.write(record_text(one, {**record, **announced}).encode())
        except OSError as error:
            raise os_failure(path, error) from None
    return missing


def _read_record(one: Export) -> str:
    """Raises StageError if another user could have planted it."""
    path = os.path.abspath(os.path.join(one.target, one.record_name))
    try:
        with open(open_trusted(path)) as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def parse_record(one: Export, text: str) -> Record:
    """What an earlier export has recorded. A damaged record counts as none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        record = json.loads(text)
        if record["version"] == _VERSION and record["source"] == one.path:
            return dict(record["files"])
    return {}


def record_text(one: Export, record: Record) -> str:
    content = {"version": _VERSION, "source": one.path, "files": record}
    return json.dumps(content, separators=(",", ":"))


def refuse(source: str, foreign: Sequence[str], changed: Sequence[str] = ()) -> None:
    """Raises SourceError if the target has files that were not exported, or changed since."""
    found = []
    if foreign:
        found.append(not_ours(foreign, "exported from %s" % printable(source)))
    if changed:
        verb = "were" if len(changed) > 1 else "was"
        found.append("%s %s changed there since the last export" % (counted(changed), verb))
    if found:
        raise SourceError(
            "%s: NOTHING IS COPIED: choose another target, move away what is to be kept, or set "
            "overwrite: true beside export" % "; ".join(found)
        )


def files_of(source: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Files in the order in which they were written; markers come last."""
    found: List[Tuple[Tuple[bool, int], str, os.stat_result]] = []
    for parent, _, names in os.walk(source):
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # the training may remove old checkpoints
                continue
            if stat.S_ISREG(status.st_mode) and not name.startswith(EXPORT_RECORD):
                rank = ("latest" in name, status.st_mtime_ns)
                found.append((rank, os.path.relpath(path, source), status))
    for _, name, status in sorted(found, key=lambda file: file[:2]):
        yield name, status


def state_of(status: os.stat_result) -> State:
    """What tells one state of a file from another."""
    return [status.st_size, status.st_mtime_ns]


def _state_in(path: str) -> Optional[State]:
    try:
        return state_of(os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def copy_file(source: str, path: str, status: os.stat_result, checked: Set[str]) -> bool:
    """Copy atomically. False: the file changed while it was copied.

    `checked`: the folders that were found safe, to which it adds.
    """
    try:
        with open(source, "rb", opener=_open_to_read) as data, _replacing(path, checked) as file:
            shutil.copyfileobj(data, file, 1 << 20)
            file.flush()
            now, copied = os.stat(source), os.fstat(file.fileno()).st_size
            if (now.st_size, now.st_mtime_ns) != (copied, status.st_mtime_ns):
                raise _ChangedError
            os.chmod(file.fileno(), status.st_mode & 0o775)
            os.utime(file.fileno(), ns=(status.st_mtime_ns, status.st_mtime_ns))
    except _ChangedError:
        return False
    except FileNotFoundError as error:
        if os.path.exists(source):
            raise os_failure(path, error) from None
    except OSError as error:
        raise os_failure(path, error) from None
    return True


def _open_to_read(path: str, _flags: int) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


@contextlib.contextmanager
def _replacing(path: str, checked: Set[str], mode: int = 0o600) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when it is complete and on the disk."""
    folder, name = os.path.split(path)
    partial = os.path.join(folder, ".%s.export" % name[:200])
    if folder not in checked:  # nobody else may exchange it, or a part of its path
        check_path(os.path.abspath(folder))
        os.makedirs(folder, exist_ok=True)
        check_path(os.path.abspath(folder))
        checked.add(folder)
    if os.path.lexists(partial):  # of an export that was killed
        check_path(os.path.abspath(partial))
        os.unlink(partial)
    with open(os.open(partial, _WRITE_FLAGS, mode), "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise
