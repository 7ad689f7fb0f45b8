"""Export to a folder: the files to copy, and how each is copied without following planted links."""

from __future__ import annotations

import filecmp
import os
import shutil
import stat
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Set, Tuple

from export_record import ExportRecord, State, refuse
from safe_folder import check_path, open_trusted
from stage_log import EXPORT_RECORD, format_size, log, os_failure, plural, printable

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Export(NamedTuple):
    """A folder to be copied. `overwrite`: also what was not exported from it."""

    source: str
    target: str
    overwrite: bool = False


class Candidate(NamedTuple):
    """A file that is complete. `now`: its state in the target, or None."""

    name: str
    status: os.stat_result
    now: Any

    @property
    def is_up_to_date(self) -> bool:
        return bool(self.now == state_of(self.status))


def export_to_folder(one: Export, settled: float) -> List[str]:
    """Returns the files left for the next round; if there are any, the markers are left, too.

    Raises StageError.
    """
    source, target = one.source, one.target
    left, found = _candidates(one, settled)
    checked: Set[str] = set()
    _announce(one, found, checked)
    files, total = 0, 0
    for name, status, _ in (file for file in found if not file.is_up_to_date):
        origin = os.path.join(source, name)
        if left and is_marker(name):
            left.append(origin)
        elif copy_file(origin, os.path.join(target, name), status, checked):
            files, total = files + 1, total + status.st_size
        else:
            left.append(origin)
    if files:
        copied = "%s, %s" % (plural(files, "file"), format_size(total))
        log("export %s: to %s, %s" % (printable(source), printable(target), copied))
    return left


def is_marker(name: str) -> bool:
    """Whether a file may name the latest checkpoint."""
    return "latest" in os.path.basename(name)


def _candidates(one: Export, settled: float) -> Tuple[List[str], List[Candidate]]:
    """Files that were written to just now, and the others."""
    left: List[str] = []
    found: List[Candidate] = []
    started = time.time()
    for name, status in files_of(one.source):
        if settled and status.st_mtime > started - settled:
            left.append(os.path.join(one.source, name))
        else:
            found.append(Candidate(name, status, _state_in(one.target, name)))
    return left, found


def _announce(one: Export, found: List[Candidate], checked: Set[str]) -> None:
    """Raises StageError if the target has files of these names that were not exported.

    Files that are the same count as exported: they may have been copied back from the target.
    """
    if not found:
        return
    record = ExportRecord(one.source)
    record.load(_read_record(one.target, record.name))
    states: Dict[str, List[State]] = {}
    foreign: List[str] = []
    changed: List[str] = []
    for file in found:
        new, path = state_of(file.status), os.path.join(one.target, file.name)
        is_known = file.now in record.states(file.name)
        if file.is_up_to_date and is_known:
            continue
        states[file.name] = [new]
        if file.now is None or file.is_up_to_date:
            continue
        if is_known or _is_same(os.path.join(one.source, file.name), path):
            states[file.name].append(file.now)
        else:
            (changed if record.is_known(file.name) else foreign).append(path)
    if not one.overwrite:
        refuse(one.source, foreign, changed)
    if states:
        _write_record(one.target, record.name, record.text_with(states), checked)


def _is_same(origin: str, path: str) -> bool:
    """Whether the target has a file of the same contents; a link is no file."""
    is_file = os.path.isfile(path) and not os.path.islink(path)
    return is_file and filecmp.cmp(origin, path, shallow=False)


def _read_record(target: str, name: str) -> str:
    """Raises StageError if another user could have planted it."""
    path = os.path.abspath(os.path.join(target, name))
    try:
        with open(open_trusted(path)) as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _write_record(target: str, name: str, text: str, checked: Set[str]) -> None:
    """Replace it atomically."""
    path = os.path.join(target, name)
    new = path + ".new"
    try:
        _make_folder(target, checked)
        _remove_partial(new)
        with open(os.open(new, _WRITE_FLAGS, 0o644), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, path)
    except OSError as error:
        raise os_failure(path, error) from None


def files_of(source: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Files in the order in which they were written; markers come last."""
    found: List[Tuple[Any, str, os.stat_result]] = []
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


def _state_in(target: str, name: str) -> Any:
    try:
        return state_of(os.lstat(os.path.join(target, name)))
    except (FileNotFoundError, NotADirectoryError):
        return None


def copy_file(source: str, path: str, status: os.stat_result, checked: Set[str]) -> bool:
    """Copy atomically, by a temporary name. False: the file changed while it was copied.

    `checked`: the folders that were found safe, to which it adds.
    """
    folder, name = os.path.split(path)
    partial = os.path.join(folder, ".%s.export" % name[:200])
    try:
        _make_folder(folder, checked)
        _remove_partial(partial)
        copy_contents(source, partial)
        try:
            now, copied = os.stat(source), os.stat(partial).st_size
            if (now.st_size, now.st_mtime_ns) != (copied, status.st_mtime_ns):
                return False
            os.chmod(partial, status.st_mode & 0o775)
            os.utime(partial, ns=(status.st_mtime_ns, status.st_mtime_ns))
            os.replace(partial, path)
        finally:
            if os.path.lexists(partial):
                os.unlink(partial)
    except FileNotFoundError as error:
        if os.path.exists(source):
            raise os_failure(path, error) from None
    except OSError as error:
        raise os_failure(path, error) from None
    return True


def _remove_partial(path: str) -> None:
    """Remove what an export has left that was killed."""
    if os.path.lexists(path):
        check_path(os.path.abspath(path))
        os.unlink(path)


def copy_contents(source: str, path: str) -> None:
    """Copy to a new file, which is removed again if that fails. No link is followed."""
    origin = os.open(source, _READ_FLAGS)
    with open(origin, "rb") as data, open(os.open(path, _WRITE_FLAGS, 0o600), "wb") as file:
        try:
            shutil.copyfileobj(data, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(path)
            raise


def _make_folder(folder: str, checked: Set[str]) -> None:
    """Before and after it is created: nobody else may exchange it, or a part of its path."""
    if folder not in checked:
        check_path(os.path.abspath(folder))
        os.makedirs(folder, exist_ok=True)
        check_path(os.path.abspath(folder))
        checked.add(folder)
