"""Move a complete copy to its target, and write down what is there.

Which files of a target were staged is known from the record, or from a commit that did not end: all
others are never overwritten and never removed.
"""

from __future__ import annotations

import ctypes
import os
import stat
from typing import Any, Collection, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from stage_list import Listing, path_of, scan
from stage_lock import Lock
from stage_log import SourceError, StageError, log, not_ours, plural, printable, quoted
from stage_pool import batches, run_parallel
from stage_record import StagedCopy, StagePaths, is_same_file, remove

_SHOWN = 20  # names in a line of the log
_NEWER = "replaced by the source's"
_CHANGED = "replaced, although changed in the target since staged"
_NOT_STAGED = "overwritten, although not staged by a job (overwrite: true)"
_REMOVED = "removed, as no longer in the source"
_KEPT = "no longer in the source, kept because changed since staged"


class Changes(NamedTuple):
    """How a target differs from its record."""

    wrong: List[str]  # files, folders and links that differ
    touched: List[str]  # files that may differ: only their time of change does
    unstaged: List[str]  # files and links that the record does not have


def find_changes(target: str, record: Dict[str, Any]) -> Changes:
    """Compare a target with its record. A change that no system call has made is not found."""
    try:
        now = scan(target, follow=False)
    except StageError:
        return Changes(list(record["files"]), [], [])
    wrong, touched = [], []
    for name, (size, _, _, _, mtime, ctime, _) in record["files"].items():
        file = now.files.get(name)
        if file is None or file[0] != size or file[1] != mtime:
            wrong.append(name)
        elif file[3] != ctime:
            touched.append(name)
    wrong += record["folders"].keys() - now.folders.keys()
    wrong += record["links"].keys() - now.links.keys()
    return Changes(wrong, touched, _unstaged(now, record["files"], record["links"]))


def unchanged_files(target: str, record: Dict[str, Any]) -> Dict[str, List[Any]]:
    """The rows of the target's files that are exactly as recorded."""
    now = find_changes(target, record)
    changed = {*now.wrong, *now.touched}
    return {name: row for name, row in record["files"].items() if name not in changed}


def _unstaged(target: Listing, files: Iterable[str], links: Iterable[str]) -> List[str]:
    return sorted((target.files.keys() | target.links.keys()) - {*files, *links})


def report_names(target: str, what: str, names: Collection[str]) -> None:
    """Name the first of some files, if there are any, and say how many there are."""
    if names:
        shown = ", ".join(printable(name or "the target") for name in sorted(names)[:_SHOWN])
        count = plural(len(names), "file")
        log("stage %s: %s: %s (%s)" % (printable(target), what, shown, count))


UNSTAGED = "also contains files that were not staged"


class TargetFiles:
    """The files of a target, before and during a commit. Raises SourceError.

    `overwrite`: the spec allows to overwrite files that were not staged.
    """

    def __init__(self, paths: StagePaths, identity: List[Any], overwrite: bool) -> None:
        self._paths, self._identity, self._overwrite = paths, identity, overwrite
        self._staged: Dict[str, Any] = {"files": {}, "links": {}, "folders": {}}
        earlier = paths.load_earlier()
        if earlier is not None and os.path.lexists(paths.target):
            if earlier["source"] != identity:
                raise _another_source(paths.target, earlier)
            self._staged = earlier

    def check_sizes(self, listing: Listing) -> None:
        """Find conflicts before anything is copied: a file of another size is another file."""
        if os.path.lexists(self._paths.target):
            self._check_kind(listing)
            sizes = {name: row[0] for name, row in listing.files.items()}
            names = self._unstaged_files(listing)
            self._refuse([n for n in names if os.lstat(self._path(n)).st_size != sizes[n]])

    def commit(self, listing: Listing, lock: Lock) -> None:
        """Make the target match `listing`. Raises StageError.

        Files in the target that were not staged stay.
        """
        lock.assert_held()
        target, copy = self._paths.target, self._paths.copy
        is_new = not os.path.lexists(target)
        overwritten: List[str] = []
        if not is_new:
            self._check_kind(listing)
            overwritten = self._conflicts(listing)
            self._refuse(overwritten)
        self._announce_and_remove(listing)
        if not is_new:
            self._check_kinds(listing)
            self._report_replaced(listing, overwritten)
            for name, mode in listing.folders.items():
                os.makedirs(self._path(name), exist_ok=True)
                os.chmod(self._path(name), mode & ~0o002 | 0o700)
            for name in listing.files:
                if os.path.lexists(path_of(copy, name)):
                    os.replace(path_of(copy, name), self._path(name))
        root = copy if is_new else target
        for name, link in listing.links.items():
            if _link_of(path_of(root, name)) != link:
                remove(path_of(root, name))
                os.symlink(link, path_of(root, name))
        for name, mode in reversed(list(listing.folders.items())):  # subfolders first
            os.chmod(path_of(root, name), mode & ~0o002)
        _sync(self._paths)
        lock.assert_held()  # the sync may have taken minutes
        if is_new:
            os.rename(copy, target)
        else:
            names = _unstaged(scan(target, follow=False), listing.files, listing.links)
            report_names(target, UNSTAGED, names)

    # -------------------------------------------------------------- conflicts

    def _check_kind(self, listing: Listing) -> None:
        """Neither a file nor a folder can take the other's place."""
        target, source = printable(self._paths.target), printable(self._identity[0])
        is_folder = os.path.isdir(self._paths.target)
        if is_folder and "" in listing.files:
            what = "%s is a folder, but its source %s is a file: set target to %s/%s"
            raise SourceError(what % (target, source, target, os.path.basename(source)))
        if not is_folder and "" not in listing.files:
            what = "%s is a file, but its source %s is a folder: move the file away, or choose "
            raise SourceError((what + "another target") % (target, source))

    def _check_kinds(self, listing: Listing) -> None:
        """Fail instead of removing a user's files that are in the way."""
        for kind, names in zip(("file", "folder", "link"), listing):
            for path in map(self._path, names):
                is_folder = os.path.isdir(path) and not os.path.islink(path)
                if os.path.lexists(path) and is_folder != (kind == "folder"):
                    now = "folder" if is_folder else "file or link"
                    what = "%s is a %s, but a %s in the source: move it away, or choose another "
                    raise SourceError((what + "target") % (printable(path), now, kind))

    def _unstaged_files(self, listing: Listing) -> List[str]:
        """Files of the source whose names the target has, but not from an earlier staging."""
        names = listing.files.keys() - {*self._staged["files"], *self._staged["links"]}
        return [name for name in names if _is_no_folder(self._path(name))]

    def _conflicts(self, listing: Listing) -> List[str]:
        copy = self._paths.copy
        files = [
            name
            for name in self._unstaged_files(listing)
            if os.path.lexists(path_of(copy, name))
            and not is_same_file(path_of(copy, name), self._path(name))
        ]
        known = {*self._staged["links"], *self._staged["files"]}
        return files + [
            name
            for name, link in listing.links.items()
            if name not in known and os.path.lexists(self._path(name))
            if _link_of(self._path(name)) != link
        ]

    def _refuse(self, conflicts: Sequence[str]) -> None:
        if conflicts and not self._overwrite:
            raise SourceError(
                "%s: choose another target, move it away, or set overwrite: true for this data set"
                % not_ours([self._path(name) for name in conflicts], "staged by a job")
            )

    # -------------------------------------------------------------- what is removed and replaced

    def _announce_and_remove(self, listing: Listing) -> None:
        """Announce what will be written, so that it counts as staged, and remove what has left."""
        now = {"files": listing.files, "folders": listing.folders, "links": listing.links}
        left = {
            kind: {name: row for name, row in self._staged[kind].items() if name not in now[kind]}
            for kind in now
        }
        names: Dict[str, Any] = {kind: {**left[kind], **now[kind]} for kind in now}
        names["files"].update(dict.fromkeys(listing.files))
        self._paths.start_commit({"source": self._identity, **names})
        there = [n for kind in ("files", "links") for n in left[kind] if self._is_there(n)]
        removed = [name for name in there if self._is_as_staged(name)]
        for name in removed:
            _unlink(self._path(name))
        for name in sorted(left["folders"], reverse=True):  # subfolders first
            try:
                os.rmdir(self._path(name))
            except OSError:  # not empty: it has files that were not staged
                continue
        report_names(self._paths.target, _REMOVED, removed)
        report_names(self._paths.target, _KEPT, {*there} - {*removed})

    def _report_replaced(self, listing: Listing, overwritten: List[str]) -> None:
        """Name the files that the commit replaces, before it does, and why."""
        found: Dict[str, List[str]] = {_NEWER: [], _CHANGED: [], _NOT_STAGED: overwritten}
        for name, row in self._staged["files"].items():
            is_replaced = name in listing.files and os.path.lexists(path_of(self._paths.copy, name))
            if is_replaced and self._is_there(name):
                # An interrupted commit has no rows: nothing is known about changes.
                is_newer = row is None or self._is_as_staged(name)
                found[_NEWER if is_newer else _CHANGED].append(name)
        for name in self._staged["links"]:
            now = _link_of(self._path(name))
            if name in listing.links and now not in (None, listing.links[name]):
                found[_NEWER if self._is_as_staged(name) else _CHANGED].append(name)
        for why, names in found.items():
            report_names(self._paths.target, why, names)

    def _is_there(self, name: str) -> bool:
        return os.path.lexists(self._path(name))

    def _is_as_staged(self, name: str) -> bool:
        """Whether a file or link is as recorded; without a row it may have been changed."""
        if name in self._staged["links"]:
            return bool(_link_of(self._path(name)) == self._staged["links"][name])
        row, now = self._staged["files"][name], os.lstat(self._path(name))
        times = [now.st_size, now.st_mtime_ns, now.st_ctime_ns]
        return row is not None and times == [row[0], *row[4:6]]

    def _path(self, name: str) -> str:
        return str(path_of(self._paths.target, name))


def _another_source(target: str, earlier: Dict[str, Any]) -> SourceError:
    """The target may also have files of a user: it is moved, and not removed."""
    source, unpacked = earlier["source"]
    job = ", staged by job %s" % earlier["job"] if earlier.get("job") else ""
    new, number = target + ".old", 1
    while os.path.lexists(new):
        number += 1
        new = "%s.old%d" % (target, number)
    return SourceError(
        "%s contains the data of another source, %s%s%s: choose another target, or move it away "
        "if no job uses it: mv %s %s"
        % (
            *(printable(target), printable(source), " (unpacked)" * unpacked, job),
            *(quoted(target), quoted(new)),
        )
    )


def _is_no_folder(path: str) -> bool:
    return os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path))


def _link_of(path: str) -> Any:
    """Where a link leads; None if it is none."""
    return os.readlink(path) if os.path.islink(path) else None


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except PermissionError:  # the folder is read-only, as its original
        folder = os.path.dirname(path)
        os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | 0o700)
        os.unlink(path)


def _sync(paths: StagePaths) -> None:
    """Write everything to the disks or servers before it counts as complete."""
    folder = os.open(paths.folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(folder):
            reason = os.strerror(ctypes.get_errno())
            raise StageError("%s: sync failed: %s" % (printable(paths.target), reason))
    finally:
        os.close(folder)


# ------------------------------------------------------------------ what the record has


def record_rows(target: str, copy: StagedCopy) -> Dict[str, Any]:
    """The rows of all files for the record. Raises StageError if a name is missing in the target.

    A row: size, mtime, permissions and ctime of the original; mtime and ctime of the file in the
    target; the checksums of its blocks if it is an object.
    """
    listing, names = copy.listing, list(copy.listing.files)
    for is_link, others in ((False, listing.folders), (True, listing.links)):
        for path in (path_of(target, name) for name in others):
            if os.path.islink(path) != is_link or not (is_link or os.path.isdir(path)):
                raise _missing(path)
    found: Dict[str, Any] = {}

    def work(batch: Tuple[int, int]) -> None:
        for name in names[slice(*batch)]:
            path, row = path_of(target, name), listing.files[name]
            try:
                now = os.lstat(path)
            except FileNotFoundError:
                raise _missing(path) from None
            if now.st_size != row[0] or not stat.S_ISREG(now.st_mode):
                raise _missing(path)
            found[name] = (*row, now.st_mtime_ns, now.st_ctime_ns, copy.checksums.get(name))

    run_parallel(work, batches([0] * len(names)))
    return found


def _missing(path: str) -> StageError:
    return StageError("%s: was copied, but is missing or has another size" % printable(path))
