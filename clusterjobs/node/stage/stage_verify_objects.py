"""Compare downloaded objects with the listing of their bucket, while others are downloaded.

The size must be the listed one, and the MD5 must be the ETag. The ETag of an object that was
uploaded in parts is the MD5 of their MD5s: the usual part sizes are tried, then S3 is asked for the
size. With KMS an ETag is no checksum; S3 is asked for that, too, if one does not match.
"""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from stage_bucket import Bucket, Objects
from stage_etag import (
    BAD,
    GOOD,
    PART_SIZES,
    UNKNOWN,
    check_etag,
    part_count,
    possible_part_sizes,
)
from stage_list import path_of
from stage_log import Progress
from stage_pool import run_parallel
from stage_record import Checksums

_BATCH_BYTES, _BATCH_NAMES = 8 << 20, 64  # in one task
_MAX_NAME_BYTES = 8 << 10  # of a task, so that it fits a pipe

_ODD_PARTS = (
    " for each round part size, so it is damaged, or was uploaded in parts of an odd size: install "
    "aws on the nodes, which can ask S3 for the size, or upload the object again"
)

Stamp = Tuple[int, int, int]  # inode, size and mtime of the file that was read


class ObjectVerifier:
    """Verifies the objects of `wanted` below `to`."""

    def __init__(self, to: str, wanted: Objects, progress: Progress) -> None:
        self._to, self._wanted, self._progress = to, wanted, progress
        self._found: Dict[str, Tuple[int, List[int], Stamp]] = {}
        self._sizes: Sequence[int] = PART_SIZES  # empty: all that are possible

    def run(
        self, existing: Sequence[str], finished: Optional[Callable[[], Optional[List[str]]]]
    ) -> None:
        """Read the existing objects, and those that `finished` returns until it returns None."""

        def more_batches() -> Optional[Iterator[List[str]]]:
            names = finished() if finished else None
            return None if names is None else self._batches(names)

        self._read(existing, more_batches)
        # Read files again that have changed since: aws sets the time after the rename.
        self._read([name for name, row in self._found.items() if row[2] != self._stamp(name)])

    def results(self, bucket: Bucket) -> Tuple[Checksums, Dict[str, str]]:
        """The checksums of the good objects, and what is wrong with the others, by name."""
        bad: Dict[str, str] = {}
        for name in self._wanted.keys() - self._found.keys():
            size = size_of(path_of(self._to, name))
            wanted = self._wanted[name][0]
            bad[name] = "did not arrive" if size is None else "%d of %d bytes" % (size, wanted)
        doubtful = {name: row[0] for name, row in self._found.items() if row[0] != GOOD}
        bad.update(self._mismatches(doubtful, bucket))
        return {name: row[1] for name, row in self._found.items() if name not in bad}, bad

    def contents(self) -> Dict[str, List[int]]:
        """The checksums of all objects that have arrived, good or bad."""
        return {name: row[1] for name, row in self._found.items()}

    def _read(
        self,
        names: Sequence[str],
        more_batches: Optional[Callable[[], Optional[Iterator[List[str]]]]] = None,
    ) -> None:
        def work(batch: List[str]) -> List[Tuple[int, List[int], Stamp]]:
            return [self._check(name) for name in batch]

        def on_result(batch: List[str], rows: List[Tuple[int, List[int], Stamp]]) -> Tuple[()]:
            self._found.update(zip(batch, rows))
            return ()

        run_parallel(work, self._batches(names), on_result, self._progress.tick, more_batches)

    def _batches(self, names: Sequence[str]) -> Iterator[List[str]]:
        batch: List[str] = []
        size = length = 0
        for name in names:
            batch.append(name)
            size += self._wanted[name][0]
            length += len(name)
            if size >= _BATCH_BYTES or len(batch) >= _BATCH_NAMES or length >= _MAX_NAME_BYTES:
                yield batch
                batch, size, length = [], 0, 0
        if batch:
            yield batch

    def _check(self, name: str) -> Tuple[int, List[int], Stamp]:
        size, etag = self._wanted[name]
        sizes = self._sizes or possible_part_sizes(size, etag.partition("-")[2])
        with open(path_of(self._to, name), "rb") as file:
            verdict, crcs = check_etag(file.fileno(), size, etag, sizes)
            return verdict, crcs, _stamp_of(os.fstat(file.fileno()))

    def _stamp(self, name: str) -> Optional[Stamp]:
        try:
            return _stamp_of(os.lstat(path_of(self._to, name)))
        except OSError:
            return None

    def _length(self, name: str) -> int:
        return self._found[name][2][1]

    def _mismatches(self, doubtful: Dict[str, int], bucket: Bucket) -> Dict[str, str]:
        """Objects that differ from their ETags. A part size that S3 returns is tried on all."""
        bad = {
            name: "%d of %d bytes" % (self._length(name), self._wanted[name][0])
            for name in doubtful
            if self._length(name) != self._wanted[name][0]
        }
        doubtful = {name: old for name, old in doubtful.items() if name not in bad}
        if not bucket.aws:  # S3 cannot be asked
            self._sizes = []
            self._read([name for name in doubtful if "-" in self._wanted[name][1]])
            doubtful = {name: self._found[name][0] for name in doubtful}
            doubtful = {name: new for name, new in doubtful.items() if new != GOOD}
        tried = set(PART_SIZES)
        while doubtful:
            name, result = doubtful.popitem()
            if not bucket.etag_is_checksum(name):
                continue
            size, etag = self._wanted[name]
            part = bucket.part_size(name) if "-" in etag else None
            if part and part_count(size, part) != etag.partition("-")[2]:
                result = UNKNOWN  # the parts are not all of one size
            elif part and part not in tried:
                tried.add(part)
                self._sizes = [part]
                self._read([name, *doubtful])
                result = self._found[name][0]
                again = {one: self._found[one][0] for one in doubtful}
                doubtful.update({one: new for one, new in again.items() if new != UNKNOWN})
                doubtful = {one: old for one, old in doubtful.items() if old != GOOD}
            if result == BAD:
                bad[name] = "differs from its ETag"
                if part is None and "-" in etag:
                    bad[name] += _ODD_PARTS
            elif result == UNKNOWN:
                bucket.warn_unverified(name)
        return bad


def size_of(path: str) -> Optional[int]:
    """The size of a file; None if it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _stamp_of(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns
