"""Reads the logs of jobs, and what their folders say, into runs."""

from __future__ import annotations

import gzip
import os
import pathlib
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from clusterjobs.commands.report.targets import Target
from clusterjobs.errors import one_problem
from clusterjobs.jobs.folders import read_plan
from clusterjobs.jobs.records import Attempt, read_folder, unrecorded_attempts
from clusterjobs.report.job import Job, RecordedAttempt
from clusterjobs.report.log import read_log
from clusterjobs.report.make_run import make_run
from clusterjobs.report.records import Log
from clusterjobs.report.run import Run

_BLOCK = 4 << 20
_GZIP = b"\x1f\x8b"


def read_target(target: Target) -> tuple[Run, Log]:
    """The run of a target, and its log. Raises InputError if the log cannot be read."""
    log = read_log(blocks_of(target.log))
    return make_run(log, _job(target)), log


def blocks_of(path: pathlib.Path | None) -> Iterator[bytes]:
    """The bytes of a log, of standard input for None; gzip is unpacked. Raises InputError."""
    if path is None:
        yield from _blocks(sys.stdin.buffer)
        return
    try:
        with open(path, "rb") as file:
            if file.read(2) == _GZIP:
                file.seek(0)
                with gzip.open(file) as unpacked:
                    yield from _blocks(unpacked)
            else:
                file.seek(0)
                yield from _blocks(file)
    except (EOFError, zlib.error):
        return  # cut off: what came before the end was read
    except OSError as error:
        raise one_problem(f"cannot read {path}: {error.strerror or error}") from None


def _blocks(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _job(target: Target) -> Job:
    if target.folder is None:
        name = target.log.name if target.log else "standard input"
        return Job(name=name)
    plan = read_plan(target.folder / "plan.json")
    derived = plan.get("derived")
    numbers = derived if isinstance(derived, dict) else {}
    recorded = read_folder(target.folder).attempts
    attempts = (*recorded, *unrecorded_attempts(target.folder, recorded))
    point = plan.get("point")
    name = point.get("name") if isinstance(point, dict) else plan.get("name")
    known = target.known
    return Job(
        name=str(name or target.folder.name),
        job_id=target.folder.name,
        framework=str(plan.get("framework") or ""),
        nodes=_nodes(recorded),
        gpus=_number(numbers.get("world_size")),
        attempts=tuple(map(_attempt, attempts)),
        **({} if known is None else known.fields()),
    )


def _attempt(one: Attempt) -> RecordedAttempt:
    began = None if one.ended is None or one.seconds is None else one.ended - one.seconds
    return RecordedAttempt(one.number, one.reason, one.seconds, began, one.ended)


def _nodes(attempts: tuple[Attempt, ...]) -> int | None:
    return None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def progress_of(path: pathlib.Path) -> int:
    """The size of a log in bytes, 0 if it is unknown."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
