"""Reads the run of a target: its log, packed by gzip or not, its job's folder and its spec."""

import codecs
import contextlib
import dataclasses
import functools
import gzip
import io
import itertools
import json
import os
import pathlib
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, NoReturn

import click

from clusterjobs.errors import InputError, one_problem
from clusterjobs.files import open_or_wait
from clusterjobs.frameworks.base import Shape
from clusterjobs.plugins import PlannedJob, Reader, Unknown
from clusterjobs.report.exports import run_data
from clusterjobs.report.logs.formats import Format, all_formats
from clusterjobs.report.logs.formats.own_pattern import OwnPattern
from clusterjobs.report.logs.log import read_log, with_unnamed_steps
from clusterjobs.report.logs.metric_files import metric_files, read_metric_file
from clusterjobs.report.logs.records import Event, Log, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, RecordedAttempt, Run
from clusterjobs.report.targets import Target
from clusterjobs.runs.jobs.folders import digest_of, read_plan
from clusterjobs.runs.jobs.records import Attempt, read_folder, unrecorded_attempts
from clusterjobs.runs.load import load
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.runs.training import CPU, Training, training_of
from clusterjobs.sites.prices import HourlyPrice, price_of
from clusterjobs.spec.keys.report import Report

SECONDS = 2.0  # of processor time, so that a busy machine is no reason to stop
_SHOWN = 60  # characters of the line


class LimitedPattern:
    """A format: the patterns of a spec, each line with a time limit, since some would take hours.

    Python's regular expressions have no limit of their own, but they notice signals.
    """

    def __init__(self, own: OwnPattern) -> None:
        self._own = own
        self.name, self.hints = own.name, own.hints
        self._line = ""
        # Signals only reach the main thread.
        self._has_limit = threading.current_thread() is threading.main_thread()
        if self._has_limit:
            signal.signal(signal.SIGVTALRM, self._stop)

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        """Raises InputError where a pattern does not come to an end."""
        if not self._has_limit:
            return self._own.read(line, rank)
        self._line = line
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            return self._own.read(line, rank)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _stop(self, *_: object) -> NoReturn:
        raise one_problem(
            f"a pattern takes more than {SECONDS:g} s for the line {self._line[:_SHOWN]!r}",
            path="report",
            hint="a repeat inside a repeat, such as (\\w+ ?)*, has too many ways to match; use one "
            "repeat, such as [\\w ]*",
        )


class Planned(NamedTuple):
    """What a spec says of its job today. `batch` of the spec; `sites` know the prices.

    `shape`: the ranks and where they run.
    `content`: the hash of all that decides what the ranks compute.
    """

    content: str
    shape: Shape
    batch: int | None
    job: Training | Unknown
    sites: tuple[tuple[str, str], ...]


class Specs:
    """The specs of a command, each read and planned once: a sweep may have a thousand points.

    A spec that cannot be planned today gives nothing, since its job may have run long ago.
    """

    def __init__(self) -> None:
        self._patterns = functools.cache(_patterns)
        self._planned = functools.cache(_planned)

    def formats(self, spec: pathlib.Path | None) -> list[Format]:
        """New ones for a log. Raises InputError for a spec that is wrong."""
        return formats_of(self._patterns(spec) if spec else None)

    def has_pattern(self, spec: pathlib.Path | None) -> bool:
        """Whether a spec says how its log is to be read."""
        return spec is not None and self._patterns(spec) is not None

    def planned(self, spec: pathlib.Path, point: str | None) -> Planned | None:
        """Of a sweep, that of the point with this name."""
        return self._planned(spec).get(digest_of(point) if point else "")


def formats_of(own: Report | None) -> list[Format]:
    """The formats to look for: the patterns of the spec's key `report` before all others."""
    return [*([LimitedPattern(OwnPattern(own.pattern, own.values))] if own else []), *all_formats()]


def _patterns(spec: pathlib.Path) -> Report | None:
    return SpecFiles(spec).load_points()[0].spec.report


def _planned(spec: pathlib.Path) -> dict[str, Planned]:
    """What was planned, by the digest of a point, or "" for a spec without a sweep."""
    try:
        jobs = load(spec, (), to_write=False).planned_jobs
    except InputError:
        return {}
    return {
        digest_of(job.loaded.point.name) if job.loaded.point else "": _planned_job(job)
        for job in jobs
    }


def _planned_job(job: PlannedJob) -> Planned:
    batch = job.loaded.spec.batch
    return Planned(
        job.content,
        job.plan.placement.shape,
        batch.global_ if batch else None,
        training_of(job.plan, job.loaded, job.source.facts, job.texts, True),
        job.inputs.sites,
    )


_CHANGED = (
    "The spec has changed since this job was rendered: model, GPUs and price are those of today."
)

_MOST = 10**9  # ranks and GPUs: beyond it, plan.json is damaged or hostile


def job_of(target: Target, specs: Specs) -> Job:
    """What is known of a run beside its log: from the job's folder, and from its spec today."""
    job = _in_folder(target)
    planned = specs.planned(target.spec, target.point) if target.spec else None
    if planned is None:
        return job
    content = read_plan(target.folder / "plan.json").get("content") if target.folder else None
    if isinstance(content, str) and content != planned.content:
        job = dataclasses.replace(job, notes=(*job.notes, _CHANGED))
    return _with_plan(job, planned)


def _in_folder(target: Target) -> Job:
    if target.folder is None:
        return Job(name=target.name)
    plan = read_plan(target.folder / "plan.json")
    attempts = read_folder(target.folder).attempts
    attempts += unrecorded_attempts(target.folder, attempts)
    ranks, per_node = _derived(plan, "world_size"), _derived(plan, "ranks_per_node")
    nodes = ranks // per_node if ranks and per_node else None
    gpus_per_node = _derived(plan, "gpus_per_node")
    point = plan.get("point")
    name = point.get("name") if isinstance(point, dict) else plan.get("name")
    return Job(
        name=target.point or (name if isinstance(name, str) else "") or target.folder.name,
        job_id=target.folder.name,
        framework=str(plan.get("framework") or ""),
        nodes=nodes,
        ranks=ranks,
        gpus=gpus_per_node * nodes if gpus_per_node and nodes else None,
        attempts=tuple(map(_attempt, attempts)),
        point=_texts(point.get("values") if isinstance(point, dict) else None),
        settings=_settings(plan),
    )


_SETTINGS = ("framework", "launcher", "cluster", "clusterjobs")


def _settings(plan: dict[str, Any]) -> dict[str, str]:
    """What decided the job beside the keys of its point, as plan.json has it."""
    spec = plan.get("spec")
    of_spec = {f"spec {key}": one for key, one in spec.items()} if isinstance(spec, dict) else {}
    own = {key: plan[key] for key in _SETTINGS if key in plan}
    return {**_texts(own), **_texts(plan.get("derived")), **_texts(of_spec)}


def _texts(values: object) -> dict[str, str]:
    if not isinstance(values, dict):
        return {}
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }


def _derived(plan: dict[str, Any], name: str) -> int | None:
    derived = plan.get("derived")
    value = derived.get(name) if isinstance(derived, dict) else None
    return value if isinstance(value, int) and 0 < value < _MOST else None


def _attempt(one: Attempt) -> RecordedAttempt:
    began = one.began
    if began is None and one.ended is not None and one.seconds is not None:
        began = one.ended - one.seconds
    return RecordedAttempt(one.number, one.reason, one.seconds, began, one.submitted)


def _with_plan(job: Job, planned: Planned) -> Job:
    """The job with ranks, model, layout, GPU and price, as the spec has them today."""
    found, shape = planned.job, planned.shape
    job = dataclasses.replace(
        job,
        batch=planned.batch,
        nodes=job.nodes or shape.nodes,
        ranks=job.ranks or shape.world_size,
        gpus=job.gpus or shape.nodes * shape.gpus_per_node or None,
    )
    if isinstance(found, Unknown):
        return job
    is_gpu = not found.gpu.name.startswith(CPU)
    sizes = found.layout.global_batch, found.model.sequence
    steps = found.length.steps_with(*sizes) if found.length else None
    return dataclasses.replace(
        job,
        batch=found.layout.global_batch,
        sequence=found.model.sequence,
        model=found.model,
        layout=found.layout,
        gpu=found.gpu if is_gpu else None,
        paid_nodes=(job.nodes or shape.nodes)
        + max(0, round(found.nodes.number) - found.layout.nodes),
        total_steps=round(steps) if steps is not None else None,
        price=_price(found, planned),
    )


def _price(found: Training, planned: Planned) -> HourlyPrice | None:
    """The price of a node; None where points share nodes, as the price of a share is unknown."""
    if found.nodes.number < 1:
        return None
    try:
        price = price_of(found.nodes, planned.sites)
    except InputError:  # `plan` shows what is wrong with the site's prices
        return None
    return None if isinstance(price, str) else price


_BLOCK = 4 << 20
_GZIP = b"\x1f\x8b"


def read_target(target: Target, specs: Specs, progress: Callable[[int], None]) -> tuple[Run, Log]:
    """The run of a target, and its log. Raises InputError for a log or spec that is wrong.

    `progress` gets the bytes that were read so far.
    """
    log = read_metric_file(target.log) if target.log else None
    if log is None:
        blocks = _counted(blocks_of(target.log), progress)
        log = read_log(blocks, specs.formats(target.spec))
        if not log.format and target.log and not specs.has_pattern(target.spec):
            log = with_unnamed_steps(log, lambda: blocks_of(target.log))
    notes: list[str] = []
    if not log.format and target.folder:
        # The log has no step; files that the program wrote into the job's folder may have.
        for file in reversed(metric_files(target.folder)):
            try:
                found = read_metric_file(file)
            except InputError as error:  # without TensorBoard; another file may do
                notes.append(f"{file.name}: {error}.")
                continue
            if found and found.records:
                log, notes = found, []
                break
    job = job_of(target, specs)
    return make_run(log, dataclasses.replace(job, notes=(*job.notes, *notes))), log


def _read(log: pathlib.Path, job: PlannedJob, folder: pathlib.Path | None) -> Mapping[str, Any]:
    target, planned = Target(log, folder, name=log.name), _planned_job(job)
    known = _with_plan(_in_folder(target), planned)
    if not isinstance(planned.job, Unknown):  # without GPUs, ranks are counted
        known = dataclasses.replace(known, gpus=known.gpus or planned.job.layout.gpus)
    formats = formats_of(job.loaded.spec.report)
    return run_data(make_run(read_log(blocks_of(log), formats), known))


READER = Reader("report", _read)


def _counted(blocks: Iterator[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    size = 0
    for block in blocks:
        size += len(block)
        progress(size)
        yield block


def blocks_of(path: pathlib.Path | None) -> Iterator[bytes]:
    """The bytes of a log, of standard input for None; gzip and UTF-16 undone. Raises InputError."""
    try:
        if path is None:
            yield from _blocks(sys.stdin.buffer)
            return
        with open_or_wait(path) as file:
            yield from _blocks(file)
    except OSError as error:
        raise one_problem(f"cannot read {path or 'it'}: {error.strerror or error}") from None


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Of a packed file that is cut off or damaged, all that comes before."""
    start = file.read(len(_GZIP))
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        for block in itertools.chain([start], iter(functools.partial(file.read, _BLOCK), b"")):
            yield decoder.decode(block).encode()
        return
    if start != _GZIP:
        yield start + file.read(_BLOCK)
        while block := file.read(_BLOCK):
            if block.count(0) == len(block):
                _skip_hole(file)
            else:
                yield block
        return
    unpacked = gzip.GzipFile(fileobj=_Again(start, file))
    try:
        while block := unpacked.read1(_BLOCK):  # `read` would lose what comes before the damage
            yield block
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return


def _skip_hole(file: BinaryIO) -> None:
    """Go to the next bytes that are written, since a hole may be terabytes of zeros.

    A log has one if it was emptied while a program went on writing at its old place.
    """
    with contextlib.suppress(OSError):  # a pipe
        size, place = os.fstat(file.fileno()).st_size, file.tell()
        try:
            file.seek(os.lseek(file.fileno(), place, os.SEEK_DATA))
        except OSError:
            file.seek(max(size, place))  # nothing follows


class _Again(io.RawIOBase):
    """A file whose first bytes were read already; standard input cannot go back."""

    def __init__(self, start: bytes, file: BinaryIO) -> None:
        self._start, self._file = start, file

    def read(self, size: int = -1) -> bytes:
        start, self._start = self._start, b""
        return start or self._file.read(size)


_LONG = 256 << 20  # bytes; a shorter log is read in about a second


def progress_for(target: Target) -> Callable[[int], None]:
    """Shows progress on a terminal, by the bytes that were read so far.

    Prints nothing for a short log, or into a file.
    """
    size = target.log.stat().st_size if target.log and target.log.is_file() else 0
    if size < _LONG or not sys.stderr.isatty():
        return lambda _: None

    def show(read: int) -> None:
        done = read >= size
        text = f"reading {read / 1e9:.1f} of {size / 1e9:.1f} GB"
        click.echo(f"\r{'' if done else text:<40}\r" if done else f"\r{text}", nl=False, err=True)

    return show
