"""How the speed of runs grows with their GPUs: weak and strong scaling.

Weak: the same batch per GPU. Strong: the same batch. An efficiency is relative to the smallest run,
and only runs with a steady state have one. More than 1 is impossible, and is never called success.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.report.numbers import number, share
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table

_NEAR = 0.01  # of two batches that are the same
_POSSIBLE = 1.05  # an efficiency above it is not explained by noise
_UNKNOWN = "unknown"  # the kind of scaling
FEWEST_SIZES = 4  # for a fit of Amdahl's law


class _Size(NamedTuple):
    """A run that can be compared: samples/s, and the batch that follows from its step time.

    The batch is None if the log has samples/s and no time of a step.
    """

    run: Run
    gpus: int
    rate: float
    batch: float | None


def scaling(runs: Sequence[Run]) -> Table | None:
    """The table, or None if the runs do not differ in their GPUs."""
    sized = [run for run in runs if run.gpus]
    if len({run.gpus for run in sized}) < 2:
        return None
    steady = sorted((one for run in sized if (one := _size(run))), key=lambda one: one.gpus)
    notes = [
        f"{run.name}: left out, since it has no steady state: {run.no_steady_state}"
        for run in sized
        if _size(run) is None
    ]
    if len({one.gpus for one in steady}) < 2:
        notes.append("No efficiency: fewer than two sizes have a steady state.")
        return Table("scaling", notes=(*notes, *_naive(sized)))
    base = steady[0]
    kinds = [_kind(base, one) for one in steady]
    rows = tuple(_row(base, one, kind) for one, kind in zip(steady, kinds, strict=True))
    for one, kind in zip(steady, kinds, strict=True):
        notes += _remarks(base, one, kind)
    of_same = [one for one, kind in zip(steady, kinds, strict=True) if kind in ("base", "strong")]
    if fit := _amdahl(of_same):
        notes.append(fit)
    head = ("run", "GPUs", "samples/s", "per GPU", "batch", "scaling", "efficiency")
    return Table("scaling", head, rows, tuple(notes))


def _size(run: Run) -> _Size | None:
    rate, step = run.rates.get("samples_per_second"), run.rates.get("seconds")
    if rate is None or not run.gpus:
        return None
    return _Size(run, run.gpus, rate.median, rate.median * step.median if step else None)


def _kind(base: _Size, one: _Size) -> str:
    """Weak or strong scaling against the smallest run; "" if it is neither."""
    if one is base:
        return "base"
    if one.batch is None or base.batch is None:
        return _UNKNOWN
    if abs(one.batch - base.batch) <= _NEAR * base.batch:
        return "strong"
    per_gpu = one.batch / one.gpus
    return "weak" if abs(per_gpu * base.gpus - base.batch) <= _NEAR * base.batch else ""


def _row(base: _Size, one: _Size, kind: str) -> tuple[str, ...]:
    value = efficiency(base, one)
    text = share(value) if kind and value <= _POSSIBLE else "not comparable"
    return (
        one.run.name,
        str(one.gpus),
        number(one.rate),
        number(one.rate / one.gpus),
        "-" if one.batch is None else number(round(one.batch)),
        kind or "neither",
        text,
    )


def efficiency(base: _Size, one: _Size) -> float:
    """Samples/s per GPU against the smallest run: the same for weak and for strong scaling."""
    return one.rate / one.gpus / (base.rate / base.gpus)


def _remarks(base: _Size, one: _Size, kind: str) -> list[str]:
    name, value = one.run.name, efficiency(base, one)
    if kind == _UNKNOWN and value <= _POSSIBLE:
        return [f"{name}: the log has no batch, so that it may be another one per GPU."]
    if not kind:
        return [f"{name}: another batch per GPU than {base.run.name}, so no efficiency."]
    if value > _POSSIBLE:
        return [
            f"{name}: {number(value)} times the speed per GPU of {base.run.name} is no success: "
            f"{base.run.name} is slower than its GPUs{_why_slow(base.run)}."
        ]
    return []


def _why_slow(run: Run) -> str:
    waited = run.lost_seconds.get("data_wait", 0.0)
    lost = sum(value for kind, value in run.lost_seconds.items() if kind != "queue")
    return ", mostly waiting for its data" if lost and waited > lost / 2 else ""


def _naive(runs: Sequence[Run]) -> list[str]:
    """What a careless division would give, where it is impossible."""
    known = sorted(
        ((run.gpus or 1, _last_rate(run), run) for run in runs if _last_rate(run)),
        key=lambda one: one[0],
    )
    if len(known) < 2:
        return []
    (few, slow, small), (many, fast, large) = known[0], known[-1]
    value = fast / many / (slow / few) if slow else 0.0
    if value <= _POSSIBLE:
        return []
    return [
        f"Dividing the last samples/s of both gives {number(value, 3)} for {large.name} against "
        f"{small.name}. More than 1 is impossible: {small.name} was still getting faster."
    ]


def _last_rate(run: Run) -> float:
    found = [one.values.get("samples_per_second", 0.0) for one in run.windows]
    return max(found, default=0.0)


def _amdahl(sizes: Sequence[_Size]) -> str | None:
    """Least squares of T(n) = serial + parallel / n over runs of the same batch."""
    if len({one.gpus for one in sizes}) < FEWEST_SIZES:
        return None
    points = [(1 / one.gpus, one.batch / one.rate) for one in sizes if one.batch]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    parallel = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    serial = mean_y - parallel * mean_x
    if serial < 0 or parallel <= 0:
        return "Amdahl's law does not describe these runs."
    return (
        f"Amdahl's law: {number(1000 * serial, 3)} ms of a step do not get shorter with more GPUs; "
        f"at most {number((serial + parallel) / serial, 3)} times the speed of one GPU."
        if serial
        else None
    )
