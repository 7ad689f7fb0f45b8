"""A finished copy gets the target's name: at once where there is none yet, else file by file."""

from __future__ import annotations

import os

from stage_list import Listing, path_of
from stage_lock import Lock
from stage_log import StageError, shown
from stage_record import Place, remove


def put_in_place(place: Place, listing: Listing, lock: Lock) -> bool:
    """Make the target what `listing` says, and say whether it is new. Raises StageError.

    What else lies there stays.
    """
    lock.assert_held()
    is_new = not os.path.lexists(place.target)
    root = place.copy if is_new else place.target
    if not is_new:
        place.forget_record()
        _check_kinds(place, listing)
        _make_writable(place.target, listing)
        for name in listing.files:
            if os.path.lexists(path_of(place.copy, name)):
                os.replace(path_of(place.copy, name), path_of(place.target, name))
    for name, said in listing.links.items():
        _link(path_of(root, name), said)
    for name, mode in reversed(list(listing.folders.items())):  # what lies deeper comes later in it
        os.chmod(path_of(root, name), mode)
    _sync(place)
    lock.assert_held()  # to write all of it may have taken minutes
    if is_new:
        os.rename(place.copy, place.target)
    return is_new


def _check_kinds(place: Place, listing: Listing) -> None:
    """Nothing that a person has put there is removed to make room."""
    if ("" in listing.files) == os.path.isdir(place.target):
        raise StageError("%s is there, and of another kind" % shown(place.target))
    for kind, names in zip(("file", "folder", "link"), listing):
        for name in names:
            path = path_of(place.target, name)
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            if os.path.lexists(path) and is_folder != (kind == "folder"):
                raise StageError("%s is there, and should be a %s" % (shown(path), kind))


def _make_writable(target: str, listing: Listing) -> None:
    for name, mode in listing.folders.items():
        path = path_of(target, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode | 0o700)


def _link(path: str, said: str) -> None:
    if os.path.islink(path) and os.readlink(path) == said:
        return
    remove(path)
    os.symlink(said, path)


def _sync(place: Place) -> None:
    """All of it on the disks, or on the servers, before anything says that it is complete."""
    import ctypes  # late: it takes as long as a hundred small files

    folder = os.open(place.folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(folder):
            reason = os.strerror(ctypes.get_errno())
            raise StageError("%s: not all was written: %s" % (shown(place.target), reason))
    finally:
        os.close(folder)
