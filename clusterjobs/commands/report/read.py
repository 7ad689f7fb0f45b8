"""Reads the log of a target, packed by gzip or not, block by block."""

from __future__ import annotations

import gzip
import pathlib
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from clusterjobs.commands.report.facts import job_of, own_formats
from clusterjobs.commands.report.targets import Target
from clusterjobs.errors import one_problem
from clusterjobs.report.formats import all_formats
from clusterjobs.report.log import read_log
from clusterjobs.report.make_run import make_run
from clusterjobs.report.records import Log
from clusterjobs.report.run import Run

_BLOCK = 4 << 20
_GZIP = b"\x1f\x8b"


def read_target(target: Target, progress: Callable[[int], None]) -> tuple[Run, Log]:
    """The run of a target, and its log. Raises InputError if the log cannot be read.

    `progress` gets the bytes that were read so far.
    """
    own = own_formats(target)
    log = read_log(_counted(blocks_of(target.log), progress), [*own, *all_formats()])
    return make_run(log, job_of(target)), log


def _counted(blocks: Iterator[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    size = 0
    for block in blocks:
        size += len(block)
        progress(size)
        yield block


def blocks_of(path: pathlib.Path | None) -> Iterator[bytes]:
    """The bytes of a log, of standard input for None; gzip is unpacked. Raises InputError."""
    if path is None:
        yield from _blocks(sys.stdin.buffer)
        return
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] == _GZIP:
                with gzip.open(file) as unpacked:
                    yield from _blocks(unpacked)
            else:
                yield from _blocks(file)
    except (EOFError, zlib.error):
        return  # a packed file that is cut off: all before its end was read
    except OSError as error:
        raise one_problem(f"cannot read {path}: {error.strerror or error}") from None


def _blocks(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block
