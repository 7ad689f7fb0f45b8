"""A finished copy gets the target's name: at once where there is none yet, else file by file."""

from __future__ import annotations

import ctypes
import os
from typing import Dict

from stage_copy import path_of
from stage_files import Entry
from stage_lock import Lock
from stage_log import StageError, shown
from stage_record import Place, remove


def put_in_place(place: Place, listing: Dict[str, Entry], lock: Lock) -> None:
    """Make the target what `listing` says. What else lies there stays. Raises StageError."""
    lock.assert_held()
    is_new = not os.path.lexists(place.target)
    root = place.copy if is_new else place.target
    if not is_new:
        place.forget_record()
        _check_kinds(place, listing)
        _make_writable(place.target, listing)
        for name, entry in listing.items():
            if entry.kind == "file" and os.path.lexists(path_of(place.copy, name)):
                os.replace(path_of(place.copy, name), path_of(place.target, name))
    for name, entry in listing.items():
        if entry.kind == "link":
            _link(path_of(root, name), entry.origin)
    for name, entry in reversed(list(listing.items())):  # what lies deeper comes later in it
        if entry.kind == "folder":
            os.chmod(path_of(root, name), entry.mode)
    _sync(place)
    lock.assert_held()  # to write all of it may have taken minutes
    if is_new:
        os.rename(place.copy, place.target)


def _check_kinds(place: Place, listing: Dict[str, Entry]) -> None:
    """Nothing that a person has put there is removed to make room."""
    if ("" in listing) == os.path.isdir(place.target):
        raise StageError("%s is there, and of another kind" % shown(place.target))
    for name, entry in listing.items():
        path = path_of(place.target, name)
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        if os.path.lexists(path) and is_folder != (entry.kind == "folder"):
            raise StageError("%s is there, and should be a %s" % (shown(path), entry.kind))


def _make_writable(target: str, listing: Dict[str, Entry]) -> None:
    for name, entry in listing.items():
        if entry.kind == "folder":
            path = path_of(target, name)
            os.makedirs(path, exist_ok=True)
            os.chmod(path, entry.mode | 0o700)


def _link(path: str, said: str) -> None:
    if os.path.islink(path) and os.readlink(path) == said:
        return
    remove(path)
    os.symlink(said, path)


def _sync(place: Place) -> None:
    """All of it on the disks, or on the servers, before anything says that it is complete."""
    folder = os.open(place.folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(folder):
            reason = os.strerror(ctypes.get_errno())
            raise StageError("%s: not all was written: %s" % (shown(place.target), reason))
    finally:
        os.close(folder)
