"""Objects of a bucket copied beside the target by s5cmd or aws, and held against the listing."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional, Tuple

from stage_bucket import ROUNDS, Bucket, Objects
from stage_checks import Checks, size_of
from stage_copy import check_space, make_folders
from stage_download import Download
from stage_list import NOTHING, Listing, path_of
from stage_lock import Lock
from stage_log import Progress, StageError, counted, say, shown
from stage_record import Place, Seen, Sums, compare, remove


def bring_objects(
    place: Place, source: str, record: Optional[Dict[str, Any]], lock: Lock
) -> Tuple[Listing, Sums, Seen, Objects]:
    """What the target must be, the sums of all objects, and the bucket's listing."""
    bucket = Bucket(source)
    objects = bucket.list()
    listing = _listing(objects, source)
    sums = _sound(place, objects, record)
    wanted = {name: objects[name] for name in objects if name not in sums}
    check_space(place, listing, sum(size for size, _ in wanted.values()))
    make_folders(place.copy, listing)
    sums.update(_fetched(bucket, place, wanted, place.copy, lock))
    return listing, sums, Seen([], []), objects


def fetch_object(source: str, path: str, place: Place, lock: Lock) -> Objects:
    """One object as a file, checked. Gives its size and ETag."""
    bucket = Bucket(source)
    objects = bucket.list()
    if list(objects) != [""]:
        raise StageError("%s: not one object" % source)
    check_space(place, NOTHING, objects[""][0])
    _fetched(bucket, place, objects, path, lock)
    return objects


def _fetched(bucket: Bucket, place: Place, wanted: Objects, to: str, lock: Lock) -> Sums:
    """All that is wanted, below `to`, checked; what lies there already is checked too."""
    total = sum(size for size, _ in wanted.values())
    progress = Progress("stage %s" % shown(place.target), total, lock.beat)
    sums: Sums = {}
    left, said = wanted, ""
    for number in range(ROUNDS + 1):
        _remove_others(to, wanted)
        there = [name for name, (size, _) in left.items() if size_of(path_of(to, name)) == size]
        missing = {name: left[name] for name in left.keys() - set(there)}
        # The last round is for what came before an earlier attempt was ended, and is bad.
        if missing and number == ROUNDS:
            break
        download = Download(bucket, place, missing, to, (progress, lock)) if missing else None
        try:
            checks = Checks(to, left, progress)
            checks.run(there, download.arrived if download else None)
        finally:
            said = download.end() if download else said
        good, bad = checks.verdict(bucket)
        sums.update(good)
        if not bad:
            return sums
        left = {name: left[name] for name in bad}
        for name in bad:
            remove(path_of(to, name))
        if number < ROUNDS - 1:
            say("stage %s: %s again" % (shown(place.target), counted(len(bad), "object")))
            time.sleep(2**number)
    path, why = sorted(bad.items())[0]
    key = shown(bucket.key_of(path))
    raise StageError("%s: %s (%s)%s" % (key, why, counted(len(bad), "object"), said))


def _listing(objects: Objects, source: str) -> Listing:
    """The folders and files that the names make. Raises StageError where they make none."""
    mask = os.umask(0)
    os.umask(mask)
    found = Listing({}, {}, {})
    for name, (size, _) in objects.items():
        parts = name.split("/")
        if name and any(part in ("", ".", "..") for part in parts):
            raise StageError("%s/%s: no name that a file can have" % (source, shown(name)))
        for end in range(1, len(parts)):
            found.folders["/".join(parts[:end])] = 0o777 & ~mask
        found.files[name] = (size, 0, 0o666 & ~mask, 0)
    for name in found.files.keys() & found.folders.keys():
        raise StageError("%s/%s: an object, and a folder of others" % (source, shown(name)))
    return found


def _sound(place: Place, objects: Objects, record: Optional[Dict[str, Any]]) -> Sums:
    """What is there already as it was staged, and in the bucket as it was."""
    if record is None:
        return {}
    wrong, touched = compare(place.target, record)
    doubtful = {*wrong, *touched}
    return {
        name: row[-1]
        for name, row in record["files"].items()
        if name not in doubtful and objects.get(name) == record["state"].get(name)
    }


def _remove_others(copy: str, wanted: Objects) -> None:
    """What a tool has left behind, or an older copy: all that is not wanted."""
    if "" in wanted:
        return
    for folder, _, names in os.walk(copy):
        for name in names:
            path = os.path.join(folder, name)
            if path[len(copy) + 1 :] not in wanted:
                os.unlink(path)
