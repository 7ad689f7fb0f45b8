"""How the speed of runs grows with their GPUs: weak and strong scaling.

Weak: the same batch per GPU. Strong: the same batch. An efficiency is relative to the smallest run
(of several, the fastest), and only runs with a steady state have one. More than 1 is impossible,
and is never called success.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.report.numbers import number, share
from clusterjobs.report.records import Quantity
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table

_NEAR = 0.01  # of two batches that are the same
_POSSIBLE = 1.05  # an efficiency above it is not explained by noise
_UNKNOWN = "unknown"  # the kind of scaling
FEWEST_SIZES = 4  # for a fit of Amdahl's law
_SERIAL = 0.001  # of the time on one GPU: a smaller serial part is noise
_UNITS: dict[Quantity, str] = {
    "samples_per_second": "samples/s",
    "tokens_per_second": "tokens/s",
}


class _Size(NamedTuple):
    """A run that can be compared: its rate, and the batch that follows from its step time.

    Both are in samples, or both in tokens. The batch is None if the log has no time of a step.
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
    name = _rate_of_most(sized)
    sizes = [(run, _size(run, name)) for run in sized]
    notes = [f"{run.name}: left out, since {_why_out(run, name)}" for run, one in sizes if not one]
    steady = sorted((one for _, one in sizes if one), key=lambda one: (one.gpus, -one.rate))
    if len({one.gpus for one in steady}) < 2:
        notes.append("No efficiency: fewer than two sizes have a steady state.")
        return Table("scaling", notes=(*notes, *_naive(sized, name)))
    base = steady[0]
    kinds = [_kind(base, one) for one in steady]
    rows = tuple(_row(base, one, kind) for one, kind in zip(steady, kinds, strict=True))
    for one, kind in zip(steady, kinds, strict=True):
        notes += _remarks(base, one, kind)
    of_same = [one for one, kind in zip(steady, kinds, strict=True) if kind in ("base", "strong")]
    if fit := _amdahl(of_same):
        notes.append(fit)
    head = ("run", "GPUs", _UNITS[name], "per GPU", "batch", "scaling", "efficiency")
    return Table("scaling", head, rows, tuple(notes))


def _rate_of_most(runs: Sequence[Run]) -> Quantity:
    """The rate that most of the runs have: logs of language models may print tokens/s alone."""
    return max(_UNITS, key=lambda name: sum(name in run.rates for run in runs))


def _why_out(run: Run, name: Quantity) -> str:
    if run.no_steady_state:
        return f"it has no steady state: {run.no_steady_state}"
    return f"its log has no {_UNITS[name]}"


def _size(run: Run, name: Quantity) -> _Size | None:
    rate, step = run.rates.get(name), run.rates.get("seconds")
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
    """The rate per GPU against the smallest run: the same for weak and for strong scaling."""
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


def _naive(runs: Sequence[Run], name: Quantity) -> list[str]:
    """What a careless division would give, where it is impossible."""
    known = sorted(
        ((run.gpus or 1, rate, run) for run in runs if (rate := _last_rate(run, name))),
        key=lambda one: one[0],
    )
    if len({gpus for gpus, _, _ in known}) < 2:
        return []
    (few, slow, small), (many, fast, large) = known[0], known[-1]
    value = fast / many / (slow / few)
    if value <= _POSSIBLE:
        return []
    return [
        f"Dividing the last {_UNITS[name]} of both gives {number(value, 3)} for {large.name} "
        f"against {small.name}. More than 1 is impossible: {small.name} was slower than its GPUs."
    ]


def _last_rate(run: Run, name: Quantity) -> float:
    found = [one.values[name] for one in run.windows if name in one.values]
    return found[-1] if found else 0.0


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
    noise = _SERIAL * parallel
    if parallel <= 0 or serial < -noise:
        return "Amdahl's law does not describe these runs."
    if serial < noise:
        return "Amdahl's law: these runs show no part of a step that more GPUs do not make shorter."
    return (
        f"Amdahl's law: {number(1000 * serial, 3)} ms of a step do not get shorter with more GPUs; "
        f"at most {number((serial + parallel) / serial, 3)} times the speed of one GPU."
    )
