"""Objects of a bucket copied beside the target by s5cmd or aws, and held against the listing.

An object counts when its size is the listed one and its MD5 its ETag. An ETag of parts is the MD5
of the parts' MD5s: the usual sizes of parts are tried, then S3 is asked for it. With KMS an ETag is
no checksum, which S3 is asked too when one does not match.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from stage_bucket import ROUNDS, Bucket, Objects
from stage_copy import check_space, make_folders
from stage_files import BLOCK, sum_of_range
from stage_list import NOTHING, Listing, path_of
from stage_lock import Lock
from stage_log import Progress, StageError, counted, say, shown
from stage_pool import batches_of, run_all
from stage_record import Place, Seen, Sums, compare, remove

_MIB = 1 << 20
_PARTS = [n * _MIB for n in (8, 16, 5, 10, 15, 25, 32, 50, 64, 100, 128, 256, 512, 1024)]
_GOOD, _BAD, _UNKNOWN = 0, 1, 2


def bring_objects(
    place: Place, source: str, record: Optional[Dict[str, Any]], lock: Lock
) -> Tuple[Listing, Sums, Seen, Objects]:
    """What the target must be, the sums of all objects, and the bucket's listing."""
    bucket = Bucket(source)
    objects = bucket.list()
    listing = _listing(objects, source)
    sums = _sound(place, objects, record)
    all_wanted = wanted = {name: objects[name] for name in objects if name not in sums}
    check_space(place, listing, sum(size for size, _ in wanted.values()))
    make_folders(place.copy, listing)
    _remove_others(place.copy, all_wanted)
    progress = Progress(
        "stage %s" % shown(place.target), sum(size for size, _ in wanted.values()), lock.beat
    )
    for number in range(ROUNDS):
        said = bucket.copy(wanted, place.copy, progress, lock)
        _remove_others(place.copy, all_wanted)
        good, bad = _verified(place.copy, wanted, progress, bucket)
        sums.update(good)
        if not bad:
            break
        if number == ROUNDS - 1:
            path, why = sorted(bad.items())[0]
            key = shown(bucket.key_of(path))
            raise StageError("%s: %s (%s)%s" % (key, why, counted(len(bad), "object"), said))
        say("stage %s: %s again" % (shown(place.target), counted(len(bad), "object")))
        for name in bad:
            remove(path_of(place.copy, name))
        wanted = {name: wanted[name] for name in bad}
        time.sleep(2**number)
    return listing, sums, Seen([], []), objects


def fetch_object(source: str, path: str, place: Place, lock: Lock) -> Objects:
    """One object as a file, checked. Gives its size and ETag."""
    bucket = Bucket(source)
    objects = bucket.list()
    if list(objects) != [""]:
        raise StageError("%s: not one object" % source)
    check_space(place, NOTHING, objects[""][0])
    progress = Progress("stage %s" % shown(place.target), objects[""][0], lock.beat)
    said = ""
    for number in range(ROUNDS + 1):
        _, bad = _verified(path, objects, progress, bucket)
        if not bad:  # at once, where it came before an earlier attempt was ended
            return objects
        remove(path)
        if number < ROUNDS:
            time.sleep(2 * number)
            said = bucket.copy(objects, path, progress, lock)
    raise StageError("%s: %s%s" % (source, bad[""], said))


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


# ------------------------------------------------------------------ what has arrived
def _verified(
    copy: str, wanted: Objects, progress: Progress, bucket: Bucket
) -> Tuple[Sums, Dict[str, str]]:
    """The sums of the objects that have arrived whole; why the others have not, by name."""
    bad: Dict[str, str] = {}
    work: List[Tuple[str, int]] = []  # name, and a block's number or -1 for the ETag
    for name, (size, _) in wanted.items():
        there = _size_of(path_of(copy, name))
        if there != size:
            bad[name] = "did not arrive" if there is None else "%d of %d bytes" % (there, size)
            continue
        work += [(name, number) for number in range(-1, max(1, -(-size // BLOCK)))]
    results = [0] * len(work)

    def one(number: int) -> int:
        name, block = work[number]
        size, etag = wanted[name]
        with open(path_of(copy, name), "rb") as file:
            if block < 0:
                return _compared(file.fileno(), size, etag, _PARTS)
            offset = block * BLOCK
            return int(sum_of_range(file.fileno(), offset, min(BLOCK, size - offset)))

    def done(batch: Tuple[int, int], found: List[int]) -> Tuple[()]:
        results[batch[0] : batch[1]] = found
        return ()

    sizes = [wanted[name][0] if block < 0 else 0 for name, block in work]
    run_all(_each(one), batches_of(sizes), done, progress.tick)
    sums: Sums = {}
    doubtful: Dict[str, int] = {}
    for (name, block), result in zip(work, results):
        if block >= 0:
            sums.setdefault(name, []).append(result)
        elif result != _GOOD:
            doubtful[name] = result
    bad.update(_judged(copy, wanted, doubtful, progress, bucket))
    return {name: found for name, found in sums.items() if name not in bad}, bad


def _size_of(path: str) -> Optional[int]:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _judged(
    copy: str, wanted: Objects, doubtful: Dict[str, int], progress: Progress, bucket: Bucket
) -> Dict[str, str]:
    """Those of `doubtful` that are not what their ETags say. A size of parts serves them all."""
    bad: Dict[str, str] = {}
    tried = set(_PARTS)
    while doubtful:
        name, result = doubtful.popitem()
        if not bucket.is_sum(name):
            continue
        size, etag = wanted[name]
        part = bucket.part_size(name) if "-" in etag else None
        if part and _count_of(size, part) != etag.partition("-")[2]:
            result = _UNKNOWN  # the parts are not all of one size
        elif part and part not in tried:
            tried.add(part)
            found = _compared_with(part, copy, wanted, [name, *doubtful], progress)
            result = found.pop(name)
            doubtful.update({one: new for one, new in found.items() if new != _UNKNOWN})
            doubtful = {one: old for one, old in doubtful.items() if old != _GOOD}
        if result == _BAD:
            bad[name] = "what arrived is not what its ETag says"
            if part is None and "-" in etag:
                bad[name] += ", if its parts have a usual size (aws could ask S3)"
        elif result == _UNKNOWN:
            bucket.say_unknown(name)
    return bad


def _compared_with(
    part: int, copy: str, wanted: Objects, names: Sequence[str], progress: Progress
) -> Dict[str, int]:
    results = [_UNKNOWN] * len(names)

    def one(number: int) -> int:
        name = names[number]
        size, etag = wanted[name]
        with open(path_of(copy, name), "rb") as file:
            return _compared(file.fileno(), size, etag, [part])

    def done(batch: Tuple[int, int], found: List[int]) -> Tuple[()]:
        results[batch[0] : batch[1]] = found
        return ()

    run_all(_each(one), batches_of([wanted[name][0] for name in names]), done, progress.tick)
    return dict(zip(names, results))


def _compared(file: int, size: int, etag: str, sizes: Sequence[int]) -> int:
    """Whether a file is what its ETag says; _UNKNOWN where that cannot be told."""
    digest, _, count = etag.partition("-")
    if len(digest) != 32:
        return _UNKNOWN
    try:
        if not count:
            return _GOOD if _md5(file, 0, size).hex() == digest else _BAD
        fitting = {min(part, size) for part in sizes if _count_of(size, part) == count}
        for part in fitting:
            parts = b"".join(_md5(file, at, min(part, size - at)) for at in range(0, size, part))
            if hashlib.md5(parts).hexdigest() == digest:
                return _GOOD
    except ValueError:  # MD5 is not allowed on this machine
        return _UNKNOWN
    return _BAD if fitting else _UNKNOWN


def _each(one: Callable[[int], int]) -> Callable[[Tuple[int, int]], List[int]]:
    return lambda batch: [one(number) for number in range(*batch)]


def _count_of(size: int, part: int) -> str:
    return str(-(-size // part))


def _md5(file: int, offset: int, length: int) -> bytes:
    found, end = hashlib.md5(), offset + length
    while offset < end:
        data = os.pread(file, min(_MIB, end - offset), offset)
        if not data:
            break
        found.update(data)
        offset += len(data)
    return found.digest()
