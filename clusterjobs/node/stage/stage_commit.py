"""Move a complete copy to its target: at once if the target is new, else file by file."""

from __future__ import annotations

import ctypes
import os

from stage_list import Listing, path_of
from stage_lock import Lock
from stage_log import SourceError, StageError, printable
from stage_record import StagePaths, remove
from stage_target import TargetFiles


def commit_copy(paths: StagePaths, listing: Listing, target: TargetFiles, lock: Lock) -> bool:
    """Make the target match `listing`, and return whether it is new. Raises StageError.

    Files in the target that were not staged stay.
    """
    lock.assert_held()
    is_new = not os.path.lexists(paths.target)
    root = paths.copy if is_new else paths.target
    target.start_commit(listing)
    if not is_new:
        _check_kinds(paths, listing)
        target.report_replaced(listing)
        _make_writable(paths.target, listing)
        for name in listing.files:
            if os.path.lexists(path_of(paths.copy, name)):
                os.replace(path_of(paths.copy, name), path_of(paths.target, name))
    for name, link in listing.links.items():
        _make_link(path_of(root, name), link)
    for name, mode in reversed(list(listing.folders.items())):  # subfolders first
        os.chmod(path_of(root, name), mode & ~0o002)
    _sync(paths)
    lock.assert_held()  # the sync may have taken minutes
    if is_new:
        os.rename(paths.copy, paths.target)
    return is_new


def _check_kinds(paths: StagePaths, listing: Listing) -> None:
    """Fail instead of removing a user's files that are in the way."""
    for kind, names in zip(("file", "folder", "link"), listing):
        for name in names:
            path = path_of(paths.target, name)
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            if os.path.lexists(path) and is_folder != (kind == "folder"):
                now = "folder" if is_folder else "file or link"
                what = "%s is a %s, but a %s in the source: move it away, or choose another target"
                raise SourceError(what % (printable(path), now, kind))


def _make_writable(target: str, listing: Listing) -> None:
    for name, mode in listing.folders.items():
        path = path_of(target, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode & ~0o002 | 0o700)


def _make_link(path: str, link: str) -> None:
    if os.path.islink(path) and os.readlink(path) == link:
        return
    remove(path)
    os.symlink(link, path)


def _sync(paths: StagePaths) -> None:
    """Write everything to the disks or servers before it counts as complete."""
    folder = os.open(paths.folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(folder):
            reason = os.strerror(ctypes.get_errno())
            raise StageError("%s: sync failed: %s" % (printable(paths.target), reason))
    finally:
        os.close(folder)
