"""Copy objects of a bucket to the folder beside the target, and compare them with the listing.

The size must be the listed one, and the MD5 must be the ETag. The ETag of an object that was
uploaded in parts is the MD5 of their MD5s: the usual part sizes are tried, then S3 is asked for the
size. With KMS an ETag is no checksum; S3 is asked for that, too, if one does not match.
"""

from __future__ import annotations

import os
import stat
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from stage_bucket import ROUNDS, Bucket, Objects, is_refusal
from stage_commit import TargetFiles, unchanged_files
from stage_copy import make_folders, progress_of, read_checksums, remove_leftovers
from stage_download import Download
from stage_etag import BAD, GOOD, PART_SIZES, UNKNOWN, check_etag, part_count, possible_part_sizes
from stage_list import EMPTY, Listing, path_of
from stage_lock import Lock
from stage_log import Progress, SourceError, StageError, log, plural, printable
from stage_pool import batches, run_parallel
from stage_record import Checksums, StagedCopy, StagePaths, remove
from stage_space import check_space

_ODD_PARTS = (
    " for each round part size, so it is damaged, or was uploaded in parts of an odd size: install "
    "aws on the nodes, which can ask S3 for the size, or upload the object again"
)


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
    now = target.check(listing)
    checksums: Checksums = {}
    if record:  # what has changed neither in the target nor in the bucket
        state = record["state"]
        unchanged = unchanged_files(now, record)
        checksums = {n: row[-1] for n, row in unchanged.items() if objects.get(n) == state.get(n)}
    if reread:
        sizes = {name: objects[name][0] for name in checksums}
        progress = Progress("stage %s: reading" % printable(paths.target), sum(sizes.values()))
        found = read_checksums(paths.target, sizes, progress)
        checksums = {name: crcs for name, crcs in checksums.items() if found[name] == crcs}
    wanted = {name: objects[name] for name in objects if name not in checksums}
    check_space(paths, listing, sum(size for size, _ in wanted.values()))
    remove_leftovers(paths.copy, wanted, listing)
    make_folders(paths.copy, listing)
    checksums.update(_fetch(bucket, paths, wanted, paths.copy, lock))
    remove_leftovers(paths.copy, wanted, listing)  # of a tool that was killed
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


def _fetch(bucket: Bucket, paths: StagePaths, wanted: Objects, to: str, lock: Lock) -> Checksums:
    """Fetch objects to `to` and verify them, as well as those that are there already.

    Raises StageError, and SourceError if another attempt would get the same.
    """
    progress = progress_of(paths, sum(size for size, _ in wanted.values()), lock)
    checksums: Checksums = {}
    before: Checksums = {}
    left, error = wanted, ""
    for number in range(ROUNDS + 1):
        existing = [name for name, (size, _) in left.items() if _size(path_of(to, name)) == size]
        missing = {name: left[name] for name in left.keys() - set(existing)}
        # One round more than downloads: the first may only verify what an earlier attempt fetched.
        if missing and number == ROUNDS:
            break
        download = Download(bucket, paths, missing, to, progress, lock) if missing else None
        verifier = ObjectVerifier(bucket, to, left, progress)
        try:
            verifier.run(existing, download.finished if download else None)
        finally:
            error = download.stop() if download else error
        bad = verifier.find_bad()
        arrived = {name: row[1] for name, row in verifier.found.items()}
        checksums.update((name, crcs) for name, crcs in arrived.items() if name not in bad)
        if not bad:
            return checksums
        # If all were the same in two downloads, a third would be, too.
        is_final = is_refusal(error) or all(
            n in arrived and arrived[n] == before.get(n) for n in bad
        )
        if is_final:
            break
        before, left = arrived, {name: left[name] for name in bad}
        for name in bad:
            remove(path_of(to, name))
        if number < ROUNDS - 1:
            again = "fetching %s again" % plural(len(bad), "object")
            log("stage %s: %s" % (printable(paths.target), again))
            time.sleep(2**number)
    name, why = min(bad.items())
    key = printable(bucket.key_of(name))
    kind = SourceError if is_final else StageError
    raise kind("%s: %s (%s)%s" % (key, why, plural(len(bad), "object"), error))


class ObjectVerifier:
    """Verifies the objects of `wanted` below `to`, while others are downloaded."""

    def __init__(self, bucket: Bucket, to: str, wanted: Objects, progress: Progress) -> None:
        self._bucket, self._to, self._wanted, self._progress = bucket, to, wanted, progress
        # Of each object that has arrived: the verdict, checksums, and the status of the file.
        self.found: Dict[str, Tuple[int, List[int], Tuple[int, ...]]] = {}

    def run(
        self, existing: Sequence[str], finished: Optional[Callable[[], Optional[List[str]]]]
    ) -> None:
        """Read the existing objects, and those that `finished` returns until it returns None."""

        def more_batches() -> Optional[List[Sequence[str]]]:
            names = finished() if finished else None
            return None if names is None else self._batches(names)

        self._read(existing, PART_SIZES, more_batches)
        # Read files again that have been written since: a tool may write where they are read.
        again = [
            name
            for name, row in self.found.items()
            if row[2] != _stamp_of(os.lstat(path_of(self._to, name)))
        ]
        self._read(again)

    def find_bad(self) -> Dict[str, str]:
        """What is wrong with objects, by name."""
        bad: Dict[str, str] = {}
        for name, (wanted, _) in self._wanted.items():
            size = _size(path_of(self._to, name))
            if size is None:
                bad[name] = "did not arrive"
            elif name not in self.found or size != wanted:
                bad[name] = "%d of %d bytes" % (size, wanted)
        doubtful = [n for n, row in self.found.items() if row[0] != GOOD and n not in bad]
        return {**bad, **self._mismatches(doubtful)}

    def _mismatches(self, doubtful: List[str]) -> Dict[str, str]:
        """Objects that differ from their ETags. A part size that S3 returns is tried on all."""
        bad: Dict[str, str] = {}
        if not self._bucket.aws:  # S3 cannot be asked
            self._read([name for name in doubtful if "-" in self._wanted[name][1]], ())
        tried = set(PART_SIZES)
        while doubtful:
            name = doubtful.pop()
            size, etag = self._wanted[name]
            if self.found[name][0] == GOOD or not self._bucket.etag_is_checksum(name):
                continue
            part = self._bucket.part_size(name) if "-" in etag else None
            is_even = not part or part_count(size, part) == etag.partition("-")[2]
            if part and is_even and part not in tried:
                tried.add(part)
                self._read([name, *doubtful], (part,))
            verdict = self.found[name][0] if is_even else UNKNOWN
            if verdict == BAD:
                is_odd = part is None and "-" in etag
                bad[name] = "differs from its ETag" + (_ODD_PARTS if is_odd else "")
            elif verdict == UNKNOWN:
                self._bucket.warn_unverified(name)
        return bad

    def _read(
        self, names: Sequence[str], sizes: Sequence[int] = PART_SIZES, more_batches: Any = None
    ) -> None:
        """Read objects. `sizes`: the part sizes to try, all possible ones if there are none."""

        def work(batch: Sequence[str]) -> None:
            for name in batch:
                row = self._check(name, sizes)
                if row[0] != UNKNOWN or name not in self.found:
                    self.found[name] = row

        run_parallel(work, self._batches(names), lambda *_: None, self._progress.tick, more_batches)

    def _batches(self, names: Sequence[str]) -> List[Sequence[str]]:
        return [names[slice(*one)] for one in batches([self._wanted[name][0] for name in names])]

    def _check(self, name: str, sizes: Sequence[int]) -> Tuple[int, List[int], Tuple[int, ...]]:
        size, etag = self._wanted[name]
        sizes = sizes or possible_part_sizes(size, etag.partition("-")[2])
        with open(path_of(self._to, name), "rb") as file:
            stamp = _stamp_of(os.fstat(file.fileno()))
            return (*check_etag(file.fileno(), size, etag, sizes), stamp)


def _stamp_of(status: os.stat_result) -> Tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _size(path: str) -> Optional[int]:
    """The size of a file; None if it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
