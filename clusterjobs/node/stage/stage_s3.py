"""Copy objects of a bucket to the folder beside the target, and compare them with the listing."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Iterable, Optional

from stage_bucket import ROUNDS, Bucket, Objects, is_refusal
from stage_commit import TargetFiles, unchanged_files
from stage_copy import make_folders
from stage_download import Download
from stage_list import EMPTY, Listing, path_of
from stage_lock import Lock
from stage_log import Progress, SourceError, StageError, log, plural, printable
from stage_record import Checksums, StagedCopy, StagePaths, remove
from stage_space import FreeSpace, check_space
from stage_verify_objects import ObjectVerifier, size_of


def copy_objects(
    paths: StagePaths,
    source: str,
    record: Optional[Dict[str, Any]],
    target: TargetFiles,
    lock: Lock,
    reread: bool,
) -> StagedCopy:
    """Fetch the objects that the target lacks. Raises StageError.

    `reread`: read the objects that the target has, and compare them with the record.
    """
    bucket = Bucket(source)
    objects = bucket.list()
    listing = _listing(objects, source)
    target.check_sizes(listing)
    checksums = _unchanged(paths, objects, record)
    if reread:
        wanted = {name: objects[name] for name in checksums}
        checksums = _as_recorded(bucket, paths, wanted, checksums)
    wanted = {name: objects[name] for name in objects if name not in checksums}
    check_space(paths, listing, sum(size for size, _ in wanted.values()))
    make_folders(paths.copy, listing)
    checksums.update(_fetch(bucket, paths, wanted, paths.copy, lock))
    return StagedCopy(listing, checksums, objects)


def check_source(source: str) -> None:
    """Whether the bucket can be listed and has objects there. Raises StageError."""
    Bucket(source).check()


def fetch_object(source: str, path: str, paths: StagePaths, lock: Lock) -> Objects:
    """Fetch a single object to `path`, verified, and return its size and ETag."""
    bucket = Bucket(source)
    objects = bucket.list()
    if list(objects) != [""]:
        raise SourceError("%s: not a single object, so not an archive" % source)
    check_space(paths, EMPTY, objects[""][0])
    _fetch(bucket, paths, objects, path, lock)
    return objects


def _fetch(bucket: Bucket, paths: StagePaths, wanted: Objects, to: str, lock: Lock) -> Checksums:
    """Fetch objects to `to` and verify them, as well as those that are there already.

    Raises StageError, and SourceError if another attempt would get the same.
    """
    total = sum(size for size, _ in wanted.values())
    space = FreeSpace(paths)

    def check() -> None:
        lock.check_lease()
        space.check()

    progress = Progress("stage %s" % printable(paths.target), total, check)
    checksums: Checksums = {}
    left, error = wanted, ""
    before: Checksums = {}
    for number in range(ROUNDS + 1):
        _remove_leftovers(to, wanted)
        existing = [name for name, (size, _) in left.items() if size_of(path_of(to, name)) == size]
        missing = {name: left[name] for name in left.keys() - set(existing)}
        # One round more than downloads: the first may only verify what an earlier attempt fetched.
        if missing and number == ROUNDS:
            break
        download = Download(bucket, paths, missing, to, progress, lock) if missing else None
        try:
            verifier = ObjectVerifier(to, left, progress)
            verifier.run(existing, download.finished if download else None)
        finally:
            error = download.stop() if download else error
        good, bad = verifier.results(bucket)
        checksums.update(good)
        if not bad:
            return checksums
        is_final = is_refusal(error) or _arrived_twice(bad, before, verifier.contents())
        if is_final:
            break
        before = verifier.contents()
        left = {name: left[name] for name in bad}
        for name in bad:
            remove(path_of(to, name))
        if number < ROUNDS - 1:
            again = "fetching %s again" % plural(len(bad), "object")
            log("stage %s: %s" % (printable(paths.target), again))
            time.sleep(2**number)
    path, why = sorted(bad.items())[0]
    key = printable(bucket.key_of(path))
    kind = SourceError if is_final else StageError
    raise kind("%s: %s (%s)%s" % (key, why, plural(len(bad), "object"), error))


def _arrived_twice(bad: Iterable[str], before: Checksums, now: Checksums) -> bool:
    """Whether all bad objects were the same in two downloads: a third would be, too."""
    return all(name in now and now[name] == before.get(name) for name in bad)


def _listing(objects: Objects, source: str) -> Listing:
    """The objects as folders and files. Raises StageError if a name is no possible path."""
    mask = os.umask(0)
    os.umask(mask)
    found = Listing({}, {}, {})
    for name, (size, _) in objects.items():
        parts = name.split("/")
        if name and any(part in ("", ".", "..") for part in parts):
            what = "not a possible file name: rename the object"
            raise SourceError("%s/%s: %s" % (source, printable(name), what))
        for end in range(1, len(parts)):
            found.folders["/".join(parts[:end])] = 0o777 & ~mask
        found.files[name] = (size, 0, 0o666 & ~mask, 0)
    for name in found.files.keys() & found.folders.keys():
        what = "both an object and a folder: rename one of them"
        raise SourceError("%s/%s: %s" % (source, printable(name), what))
    return found


def _unchanged(paths: StagePaths, objects: Objects, record: Optional[Dict[str, Any]]) -> Checksums:
    """The objects that have changed neither in the target nor in the bucket."""
    if record is None:
        return {}
    state = record["state"]
    return {
        name: row[-1]
        for name, row in unchanged_files(paths.target, record).items()
        if objects.get(name) == state.get(name)
    }


def _as_recorded(
    bucket: Bucket, paths: StagePaths, wanted: Objects, recorded: Checksums
) -> Checksums:
    """Those of the recorded checksums that the target's files still have."""
    total = sum(size for size, _ in wanted.values())
    progress = Progress("stage %s: reading" % printable(paths.target), total)
    verifier = ObjectVerifier(paths.target, wanted, progress)
    verifier.run(list(wanted), None)
    good, _ = verifier.results(bucket)
    return {name: crcs for name, crcs in good.items() if crcs == recorded[name]}


def _remove_leftovers(copy: str, wanted: Objects) -> None:
    """Remove all that is not wanted: left by a tool, or by an older copy."""
    if "" in wanted:
        return
    for folder, _, names in os.walk(copy):
        for name in names:
            path = os.path.join(folder, name)
            if path[len(copy) + 1 :] not in wanted:
                os.unlink(path)
