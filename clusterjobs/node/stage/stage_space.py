"""The free space of the file system that a copy is written to, before and while it is written.

Some of it always stays free: others need it, such as the job's own log and checkpoints.
"""

from __future__ import annotations

import os
import time
from typing import Tuple

from stage_list import Listing
from stage_log import SourceError, StageError, format_size, log, plural, printable
from stage_record import StagePaths

_SPARE = 1.01  # file systems need some space for themselves
_MEASURE_SECONDS = 0.5
_MAX_RESERVE = 1 << 30


def check_space(paths: StagePaths, listing: Listing, needed: int) -> None:
    """Raises StageError, before anything is written, if the file system is too small.

    SourceError if it would be too small even when empty.
    """
    free, reserve = _measure(paths)
    system = os.statvfs(paths.folder)
    if needed and needed * _SPARE + reserve > free:
        is_possible = needed * _SPARE + reserve <= system.f_blocks * system.f_frsize
        kind = StageError if is_possible else SourceError
        raise kind(too_small(paths, "%s needed" % format_size(needed)))
    files = listing.size()
    if system.f_files and files > system.f_favail and needed:
        where = printable(os.path.dirname(paths.target))
        counts = "%s needed, %s has %d free" % (plural(files, "inode"), where, system.f_favail)
        raise StageError("%s: not enough inodes: %s" % (printable(paths.target), counts))


def remove_if_full(paths: StagePaths) -> None:
    """Remove a partial copy that leaves no space for others; else the next attempt needs it."""
    free, reserve = _measure(paths)
    if free < reserve and os.path.lexists(paths.copy):
        paths.remove_partial_copy()
        where = printable(os.path.dirname(paths.target))
        log("stage %s: %s is full: partial copy removed" % (printable(paths.target), where))


class FreeSpace:
    """Ends the writing before the file system is full."""

    def __init__(self, paths: StagePaths) -> None:
        self._paths, self.written = paths, 0
        self._measure()
        self._was_full = self._left < 0  # then nothing is to be written: see `check_space`

    def check(self) -> None:
        """Call this about once a second. Raises StageError if only the reserve is left."""
        if time.monotonic() - self._measured >= _MEASURE_SECONDS:
            self._measure()
        if self._left < 0 and not self._was_full:
            raise StageError(too_small(self._paths, "others have used it since the start"))

    def take(self, size: int) -> None:
        """Call this before `size` bytes are written. Raises StageError."""
        if size > self._left or time.monotonic() - self._measured >= _MEASURE_SECONDS:
            self._measure()
        if size > self._left:
            sizes = format_size(self.written), format_size(size)
            what = "%s written, at least %s more needed" % sizes
            raise StageError(too_small(self._paths, what))
        self._left -= size
        self.written += size

    def _measure(self) -> None:
        free, reserve = _measure(self._paths)
        self._left, self._measured = free - reserve, time.monotonic()


def _measure(paths: StagePaths) -> Tuple[int, int]:
    """The bytes that are free, and those that must stay free."""
    system = os.statvfs(paths.folder)
    reserve = min(system.f_blocks * system.f_frsize // 100, _MAX_RESERVE)
    return system.f_bavail * system.f_frsize, reserve


def too_small(paths: StagePaths, what: str) -> str:
    free, reserve = (format_size(size) for size in _measure(paths))
    where = printable(os.path.dirname(paths.target))
    has = "%s has %s free, and %s must stay free" % (where, free, reserve)
    return "%s: not enough space: %s, %s" % (printable(paths.target), what, has)
