"""Which files of a target were staged: all others are never overwritten and never removed.

It knows the names that the record has, or that a commit that did not end has announced; it copies
nothing.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, List

from stage_changes import unstaged_names
from stage_list import Listing, path_of, scan
from stage_log import SourceError, log, not_ours, printable, quoted
from stage_record import StagePaths
from stage_replaced import is_as_staged, link_of, listed, replaced_files

_COMPARED = 1 << 20  # bytes read at once
Staged = Dict[str, Any]  # as in a record: files with their rows, links, folders


class TargetFiles:
    """The files of a target, before and during a commit. Raises SourceError.

    `overwrite`: the spec allows to overwrite files that were not staged.
    """

    def __init__(self, paths: StagePaths, identity: List[Any], overwrite: bool) -> None:
        self._paths, self._identity, self._overwrite = paths, identity, overwrite
        self._name = "stage %s" % printable(paths.target)
        self._staged: Staged = {"files": {}, "links": {}, "folders": {}}
        self._overwritten: List[str] = []  # not staged, and the spec allows to overwrite them
        earlier = paths.load_record() or paths.load_commit()
        if earlier is not None and os.path.lexists(paths.target):
            if earlier["source"] != identity:
                raise _another_source(paths.target, earlier)
            self._staged = earlier

    def check_sizes(self, listing: Listing) -> None:
        """Find conflicts before anything is copied: a file of another size is another file."""
        if not os.path.lexists(self._paths.target):
            return
        self._check_kind(listing)
        sizes = {name: row[0] for name, row in listing.files.items()}
        self._check(name for name in self._unstaged(listing) if self._size(name) != sizes[name])

    def start_commit(self, listing: Listing) -> None:
        """Check for conflicts, announce what will be written, remove what has left the source."""
        if os.path.lexists(self._paths.target):
            self._check_kind(listing)
            self._overwritten = self._conflicts(listing)
            self._check(self._overwritten)
        left = self._left(listing)
        files = {**left["files"], **dict.fromkeys(listing.files)}
        links = {**left["links"], **listing.links}
        folders = {**left["folders"], **listing.folders}
        names = {"source": self._identity, "files": files, "links": links, "folders": folders}
        self._paths.start_commit(names)
        self._remove(left)

    def report_replaced(self, listing: Listing) -> None:
        """Name the files that the commit replaces, before it does."""
        target, copy = self._paths.target, self._paths.copy
        found = replaced_files(target, copy, listing, self._staged, self._overwritten)
        for why, names in found.items():
            self._report(names, why)

    def report_unstaged(self, listing: Listing) -> None:
        """Name the files in the target that are not in the source."""
        now = scan(self._paths.target, follow=False)
        report_unstaged(self._name, unstaged_names(now, listing.files, listing.links))

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

    def _unstaged(self, listing: Listing) -> List[str]:
        """Files of the source whose names the target has, but not from an earlier staging."""
        names = listing.files.keys() - {*self._staged["files"], *self._staged["links"]}
        return [name for name in names if _is_no_folder(self._path(name))]

    def _size(self, name: str) -> int:
        return os.lstat(self._path(name)).st_size

    def _conflicts(self, listing: Listing) -> List[str]:
        target, copy = self._paths.target, self._paths.copy
        files = [
            name
            for name in self._unstaged(listing)
            if os.path.lexists(path_of(copy, name))
            and not _is_same(path_of(copy, name), path_of(target, name))
        ]
        staged = self._staged["links"].keys() | self._staged["files"].keys()
        return files + [
            name
            for name, link in listing.links.items()
            if name not in staged and not _is_free_for_link(target, name, link)
        ]

    def _check(self, conflicts: Any) -> None:
        names = [] if self._overwrite else sorted(conflicts)
        if names:
            raise SourceError(
                "%s: choose another target, move it away, or set overwrite: true for this data set"
                % not_ours([path_of(self._paths.target, name) for name in names], "staged by a job")
            )

    # -------------------------------------------------------------- what has left the source

    def _left(self, listing: Listing) -> Staged:
        now = {"files": listing.files, "links": listing.links, "folders": listing.folders}
        return {
            kind: {name: row for name, row in self._staged[kind].items() if name not in now[kind]}
            for kind in now
        }

    def _remove(self, left: Staged) -> None:
        removed: List[str] = []
        kept: List[str] = []
        for name, row in left["files"].items():
            self._remove_if(name, is_as_staged(self._path(name), row), removed, kept)
        for name, link in left["links"].items():
            self._remove_if(name, link_of(self._path(name)) == link, removed, kept)
        for name in sorted(left["folders"], reverse=True):  # subfolders first
            try:
                os.rmdir(self._path(name))
            except OSError:  # not empty: it has files that were not staged
                continue
        if removed:
            self._report(removed, "removed, as no longer in the source")
        if kept:
            self._report(kept, "no longer in the source, kept because changed since staged")

    def _remove_if(self, name: str, is_ours: bool, removed: List[str], kept: List[str]) -> None:
        path = self._path(name)
        if not os.path.lexists(path):
            return
        if is_ours:
            _unlink(path)
        (removed if is_ours else kept).append(name)

    def _path(self, name: str) -> str:
        return str(path_of(self._paths.target, name))

    def _report(self, names: List[str], what: str) -> None:
        log("%s: %s: %s" % (self._name, what, listed(names)))


def report_unstaged(name: str, unstaged: List[str]) -> None:
    """Name the files of a target that were not staged."""
    if unstaged:
        log("%s: also contains files that were not staged: %s" % (name, listed(unstaged)))


def _another_source(target: str, earlier: Dict[str, Any]) -> SourceError:
    """The target may also have files of a user: it is moved, and not removed."""
    source, unpacked = earlier["source"]
    job = ", staged by job %s" % earlier["job"] if earlier.get("job") else ""
    return SourceError(
        "%s contains the data of another source, %s%s%s: choose another target, or move it away "
        "if no job uses it: mv %s %s"
        % (
            *(printable(target), printable(source), " (unpacked)" * unpacked, job),
            *(quoted(target), quoted(_free_name(target))),
        )
    )


def _free_name(target: str) -> str:
    name, number = target + ".old", 1
    while os.path.lexists(name):
        number += 1
        name = "%s.old%d" % (target, number)
    return name


def _is_same(path: str, other: str) -> bool:
    """Whether two files have the same contents; a link is no file."""
    status = os.lstat(other)
    if not stat.S_ISREG(status.st_mode) or os.path.getsize(path) != status.st_size:
        return False
    with open(path, "rb") as one, open(other, "rb") as two:
        while True:
            data = one.read(_COMPARED)
            if data != two.read(_COMPARED):
                return False
            if not data:
                return True


def _is_no_folder(path: str) -> bool:
    return os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path))


def _is_free_for_link(target: str, name: str, link: str) -> bool:
    path = path_of(target, name)
    return not os.path.lexists(path) or link_of(path) == link


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except PermissionError:  # the folder is read-only, as its original
        folder = os.path.dirname(path)
        os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | 0o700)
        os.unlink(path)
