"""Move a complete copy to its target, and write down what is there.

Which files of a target were staged is known from the record, or from a commit that did not end: all
others are never overwritten and never removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from typing import Any, Collection, Dict, Iterable, List, NamedTuple, Sequence, Set

from stage_list import EMPTY, Listing, path_of, scan
from stage_lock import Lock
from stage_log import SourceError, StageError, log, not_ours, plural, printable, quoted
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


def find_changes(now: Listing, record: Dict[str, Any]) -> Changes:
    """Compare a target with its record. A change that no system call has made is not found."""
    wrong, touched = [], []
    for name, (size, _, _, _, mtime, ctime, _) in record["files"].items():
        file = now.files.get(name)
        if file is None or file[0] != size or file[1] != mtime:
            wrong.append(name)
        elif file[3] != ctime:
            touched.append(name)
    wrong += record["folders"].keys() - now.folders.keys()
    wrong += record["links"].keys() - now.links.keys()
    return Changes(wrong, touched)


def unchanged_files(now: Listing, record: Dict[str, Any]) -> Dict[str, List[Any]]:
    """The rows of the target's files that are exactly as recorded."""
    changes = find_changes(now, record)
    changed = {*changes.wrong, *changes.touched}
    return {name: row for name, row in record["files"].items() if name not in changed}


def report_unstaged(target: str, now: Listing, files: Iterable[str], links: Iterable[str]) -> None:
    """Name the files and links of a target that are not those that were staged."""
    names = (now.files.keys() | now.links.keys()) - {*files, *links}
    report_names(target, "also contains files that were not staged", names)


def report_names(target: str, what: str, names: Collection[str]) -> None:
    """Name the first of some files, if there are any, and say how many there are."""
    if names:
        shown = ", ".join(printable(name or "the target") for name in sorted(names)[:_SHOWN])
        count = plural(len(names), "file")
        log("stage %s: %s: %s (%s)" % (printable(target), what, shown, count))


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

    def check(self, listing: Listing) -> Listing:
        """Find conflicts before anything is copied: a file of another size is another file.

        Returns what the target has now.
        """
        now = self._scan(listing)
        sizes = {name: row[0] for name, row in now.files.items()}
        names = self._unstaged(listing.files.keys(), now)
        self._refuse([name for name in names if sizes.get(name) != listing.files[name][0]])
        return now

    def commit(self, listing: Listing, lock: Lock) -> None:
        """Make the target match `listing`. Raises StageError.

        Files in the target that were not staged stay.
        """
        lock.assert_held()
        target, copy = self._paths.target, self._paths.copy
        is_new = not os.path.lexists(target)
        now = self._scan(listing)
        copied: Set[str] = set()
        if not is_new:
            copied = {name for name in listing.files if os.path.lexists(path_of(copy, name))}
        overwritten = [
            name
            for name in self._unstaged(copied, now)
            if not is_same_file(path_of(copy, name), self._path(name))
        ]
        links = self._unstaged(listing.links.keys(), now)
        overwritten += [name for name in links if now.links.get(name) != listing.links[name]]
        self._refuse(overwritten)
        self._announce_and_remove(listing, now)
        if not is_new:
            self._check_kinds(listing)
            self._report_replaced(listing, now, copied, overwritten)
            for name, mode in listing.folders.items():
                os.makedirs(self._path(name), exist_ok=True)
                os.chmod(self._path(name), mode & ~0o002 | 0o700)
            for name in copied:
                os.replace(path_of(copy, name), self._path(name))
        root = copy if is_new else target
        for name, link in listing.links.items():
            path = path_of(root, name)
            if not os.path.islink(path) or os.readlink(path) != link:
                remove(path)
                os.symlink(link, path)
        for name, mode in reversed(list(listing.folders.items())):  # subfolders first
            os.chmod(path_of(root, name), mode & ~0o002)
        _sync(self._paths)
        lock.assert_held()  # the sync may have taken minutes
        if is_new:
            os.rename(copy, target)

    # -------------------------------------------------------------- conflicts

    def _scan(self, listing: Listing) -> Listing:
        """What the target has. Raises SourceError if one is a file and the other a folder."""
        if not os.path.lexists(self._paths.target):
            return EMPTY
        target, source = printable(self._paths.target), printable(self._identity[0])
        is_folder = os.path.isdir(self._paths.target)
        if is_folder and "" in listing.files:
            what = "%s is a folder, but its source %s is a file: set target to %s/%s"
            raise SourceError(what % (target, source, target, os.path.basename(source)))
        if not is_folder and "" not in listing.files:
            what = "%s is a file, but its source %s is a folder: move the file away, or choose "
            raise SourceError((what + "another target") % (target, source))
        return scan(self._paths.target, follow=False)

    def _check_kinds(self, listing: Listing) -> None:
        """Fail instead of removing a user's files that are in the way."""
        for kind, names in zip(("file", "folder", "link"), listing):
            for path in map(self._path, names):
                is_folder = os.path.isdir(path) and not os.path.islink(path)
                if os.path.lexists(path) and is_folder != (kind == "folder"):
                    now = "folder" if is_folder else "file or link"
                    what = "%s is a %s, but a %s in the source: move it away, or choose another "
                    raise SourceError((what + "target") % (printable(path), now, kind))

    def _unstaged(self, names: Collection[str], now: Listing) -> List[str]:
        """Those of the names that the target has as a file or link, but from no earlier staging."""
        there = now.files.keys() | now.links.keys()
        return list(there & names - self._staged["files"].keys() - self._staged["links"].keys())

    def _refuse(self, conflicts: Sequence[str]) -> None:
        if conflicts and not self._overwrite:
            raise SourceError(
                "%s: choose another target, move it away, or set overwrite: true for this data set"
                % not_ours([self._path(name) for name in conflicts], "staged by a job")
            )

    # -------------------------------------------------------------- what is removed and replaced

    def _announce_and_remove(self, listing: Listing, now: Listing) -> None:
        """Announce what will be written, so that it counts as staged, and remove what has left."""
        wanted = listing._asdict()
        left = {
            kind: {name: row for name, row in self._staged[kind].items() if name not in rows}
            for kind, rows in wanted.items()
        }
        names: Dict[str, Any] = {kind: {**left[kind], **wanted[kind]} for kind in wanted}
        names["files"].update(dict.fromkeys(listing.files))
        self._paths.start_commit({"source": self._identity, **names})
        there = {*left["files"], *left["links"]} & (now.files.keys() | now.links.keys())
        removed = {name for name in there if self._is_as_staged(name, now)}
        for name in removed:
            _unlink(self._path(name))
        for name in sorted(left["folders"], reverse=True):  # subfolders first
            with contextlib.suppress(OSError):  # not empty: it has files that were not staged
                os.rmdir(self._path(name))
        report_names(self._paths.target, _REMOVED, removed)
        report_names(self._paths.target, _KEPT, there - removed)

    def _report_replaced(
        self, listing: Listing, now: Listing, copied: Set[str], overwritten: List[str]
    ) -> None:
        """Name the files that the commit replaces, before it does, and why."""
        found: Dict[str, List[str]] = {_NEWER: [], _CHANGED: [], _NOT_STAGED: overwritten}
        files = copied & self._staged["files"].keys() & (now.files.keys() | now.links.keys())
        links = listing.links.keys() & self._staged["links"].keys() & now.links.keys()
        for name in [*files, *(n for n in links if now.links[n] != listing.links[n])]:
            found[_NEWER if self._is_as_staged(name, now, True) else _CHANGED].append(name)
        for why, names in found.items():
            report_names(self._paths.target, why, names)

    def _is_as_staged(self, name: str, now: Listing, if_unknown: bool = False) -> bool:
        """Whether a file or link is as recorded. An interrupted commit has no rows of files."""
        if name in self._staged["links"]:
            return bool(now.links.get(name) == self._staged["links"][name])
        row, file = self._staged["files"][name], now.files.get(name)
        if row is None:
            return if_unknown
        return file is not None and [file[0], file[1], file[3]] == [row[0], *row[4:6]]

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
    listing, now = copy.listing, scan(target, follow=False)
    report_unstaged(target, now, listing.files, listing.links)
    for wanted, there in ((listing.folders, now.folders), (listing.links, now.links)):
        for name in wanted.keys() - there.keys():
            raise _missing(path_of(target, name))
    found: Dict[str, Any] = {}
    for name, row in listing.files.items():
        size, mtime, _, ctime = now.files.get(name, (-1, 0, 0, 0))
        if size != row[0]:
            raise _missing(path_of(target, name))
        found[name] = (*row, mtime, ctime, copy.checksums.get(name))
    return found


def _missing(path: str) -> StageError:
    return StageError("%s: was copied, but is missing or has another size" % printable(path))
