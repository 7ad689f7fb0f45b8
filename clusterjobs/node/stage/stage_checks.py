"""Objects that have arrived held against the listing, while others arrive.

An object counts when its size is the listed one and its MD5 its ETag. An ETag of parts is the MD5
of the parts' MD5s: the usual sizes of parts are tried, then S3 is asked for it. With KMS an ETag is
no checksum, which S3 is asked too when one does not match.
"""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from stage_bucket import Bucket, Objects
from stage_etag import BAD, GOOD, PARTS, UNKNOWN, compared, count_of
from stage_list import path_of
from stage_log import Progress
from stage_pool import run_all
from stage_record import Sums

_SHARE_BYTES, _SHARE_NAMES = 8 << 20, 64  # what a process is given at once
_LONG = 8 << 10  # of names, so that they fit a pipe

Stamp = Tuple[int, int, int]  # which file, its size and its time: of what was read


class Checks:
    """The objects of `wanted` below `to`: those that are there, and those that come."""

    def __init__(self, to: str, wanted: Objects, progress: Progress) -> None:
        self._to, self._wanted, self._progress = to, wanted, progress
        self._found: Dict[str, Tuple[int, List[int], Stamp]] = {}
        self._sizes: Sequence[int] = PARTS

    def run(
        self, there: Sequence[str], arrived: Optional[Callable[[], Optional[List[str]]]]
    ) -> None:
        """Read all that is there and all that arrives, by several processes."""

        def further() -> Optional[Iterator[List[str]]]:
            names = arrived() if arrived else None
            return None if names is None else self._shares(names)

        self._read(there, further)
        # aws sets the time of a file after it has given it its name: then it is read again.
        self._read([name for name, row in self._found.items() if row[2] != self._stamp(name)])

    def verdict(self, bucket: Bucket) -> Tuple[Sums, Dict[str, str]]:
        """The sums of the objects that are whole; why the others are not, by name."""
        bad: Dict[str, str] = {}
        for name in self._wanted.keys() - self._found.keys():
            size = size_of(path_of(self._to, name))
            wanted = self._wanted[name][0]
            bad[name] = "did not arrive" if size is None else "%d of %d bytes" % (size, wanted)
        doubtful = {name: row[0] for name, row in self._found.items() if row[0] != GOOD}
        bad.update(self._judged(doubtful, bucket))
        return {name: row[1] for name, row in self._found.items() if name not in bad}, bad

    def _read(
        self,
        names: Sequence[str],
        further: Optional[Callable[[], Optional[Iterator[List[str]]]]] = None,
    ) -> None:
        def work(share: List[str]) -> List[Tuple[int, List[int], Stamp]]:
            return [self._compared(name) for name in share]

        def done(share: List[str], rows: List[Tuple[int, List[int], Stamp]]) -> Tuple[()]:
            self._found.update(zip(share, rows))
            return ()

        run_all(work, self._shares(names), done, self._progress.tick, further)

    def _shares(self, names: Sequence[str]) -> Iterator[List[str]]:
        share: List[str] = []
        size = length = 0
        for name in names:
            share.append(name)
            size += self._wanted[name][0]
            length += len(name)
            if size >= _SHARE_BYTES or len(share) >= _SHARE_NAMES or length >= _LONG:
                yield share
                share, size, length = [], 0, 0
        if share:
            yield share

    def _compared(self, name: str) -> Tuple[int, List[int], Stamp]:
        size, etag = self._wanted[name]
        with open(path_of(self._to, name), "rb") as file:
            verdict, crcs = compared(file.fileno(), size, etag, self._sizes)
            return verdict, crcs, _stamp_of(os.fstat(file.fileno()))

    def _stamp(self, name: str) -> Optional[Stamp]:
        try:
            return _stamp_of(os.lstat(path_of(self._to, name)))
        except OSError:
            return None

    def _judged(self, doubtful: Dict[str, int], bucket: Bucket) -> Dict[str, str]:
        """Those that are not what their ETags say. A size of parts serves them all."""
        bad: Dict[str, str] = {}
        tried = set(PARTS)
        while doubtful:
            name, result = doubtful.popitem()
            if not bucket.is_sum(name):
                continue
            size, etag = self._wanted[name]
            part = bucket.part_size(name) if "-" in etag else None
            if part and count_of(size, part) != etag.partition("-")[2]:
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
                bad[name] = "what arrived is not what its ETag says"
                if part is None and "-" in etag:
                    bad[name] += ", if its parts have a usual size (aws could ask S3)"
            elif result == UNKNOWN:
                bucket.say_unknown(name)
        return bad


def size_of(path: str) -> Optional[int]:
    """Of a file; None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _stamp_of(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns
