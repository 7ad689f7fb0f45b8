"""Reads the log of a target, packed by gzip or not, block by block."""

from __future__ import annotations

import gzip
import io
import pathlib
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from clusterjobs.commands.report.facts import job_of
from clusterjobs.commands.report.specs import Specs
from clusterjobs.commands.report.targets import Target
from clusterjobs.errors import one_problem
from clusterjobs.report.log import read_log
from clusterjobs.report.make_run import make_run
from clusterjobs.report.metric_files import read_metrics
from clusterjobs.report.records import Log
from clusterjobs.report.run import Run

_BLOCK = 4 << 20
_METRIC_FILES, _LARGEST = (".csv", ".json"), 256 << 20
_GZIP = b"\x1f\x8b"


def read_target(target: Target, specs: Specs, progress: Callable[[int], None]) -> tuple[Run, Log]:
    """The run of a target, and its log. Raises InputError for a log or spec that is wrong.

    `progress` gets the bytes that were read so far.
    """
    log = _metrics(target.log)
    if log is None:
        blocks = _counted(blocks_of(target.log), progress)
        log = read_log(blocks, specs.formats(target.spec))
    return make_run(log, job_of(target, specs)), log


def _metrics(path: pathlib.Path | None) -> Log | None:
    """Of a file of metrics; None if it is a log."""
    if path is None or path.suffix not in _METRIC_FILES or not path.is_file():
        return None
    if path.stat().st_size > _LARGEST:
        return None
    return read_metrics(path.read_text(encoding="utf-8", errors="replace"))


def _counted(blocks: Iterator[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    size = 0
    for block in blocks:
        size += len(block)
        progress(size)
        yield block


def blocks_of(path: pathlib.Path | None) -> Iterator[bytes]:
    """The bytes of a log, of standard input for None; gzip is unpacked. Raises InputError."""
    try:
        if path is None:
            yield from _blocks(sys.stdin.buffer)
            return
        with path.open("rb") as file:
            yield from _blocks(file)
    except OSError as error:
        raise one_problem(f"cannot read {path or 'it'}: {error.strerror or error}") from None


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Of a packed file that is cut off or damaged, all that comes before."""
    start = file.read(len(_GZIP))
    if start != _GZIP:
        yield start
        while block := file.read(_BLOCK):
            yield block
        return
    unpacked = gzip.GzipFile(fileobj=_Again(start, file))
    try:
        while block := unpacked.read1(_BLOCK):  # `read` would lose what comes before the damage
            yield block
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return


class _Again(io.RawIOBase):
    """A file whose first bytes were read already; standard input cannot go back."""

    def __init__(self, start: bytes, file: BinaryIO) -> None:
        self._start, self._file = start, file

    def read(self, size: int = -1) -> bytes:
        start, self._start = self._start, b""
        return start or self._file.read(size)
