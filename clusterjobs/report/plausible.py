"""Each number of a run passes its limit before it is printed: one beyond it is named instead.

The limits of single values of the log are in `logs/bounds.py`; these are of what is made of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from clusterjobs.report.logs.bounds import MOST_STEPS_A_LINE
from clusterjobs.report.logs.records import Odd
from clusterjobs.report.run import Job, Run
from clusterjobs.report.tables import duration, integer, number, share
from clusterjobs.report.values import SLOW, total

_YEARS = 3 * 365 * 86_400.0  # of one job
_LONGEST = 10 * _YEARS
_MORE = 1.05  # times the span of the log: a line stands behind its steps
_ROUNDING = 60.0  # seconds
_PART = 0.05  # of the time: less than that need not be certain
_TIMES = 10.0  # a usual step: as long may a single slow one take
_OFTEN = 3  # other lines with such a time: then it is one
_UNIT = 500.0  # times a usual step: seconds that were taken for milliseconds
_OF_STEPS: dict[str, Any] = {"steps": None, "total_steps": None, "lost_steps": 0}
_OF_TIME: dict[str, Any] = {
    "goodput": None,
    "paid_seconds": None,
    "lost_seconds": {},
    "cost": None,
    "mean_samples_per_second": None,
}


class Facts(NamedTuple):
    """What limits a run's numbers. `span`: seconds between the log's first and last time stamp."""

    job: Job
    span: float | None


class Limit(NamedTuple):
    """`value` of a run may be at most `most`; beyond it, `hidden` replaces fields of the run.

    Either of the two is None where it is unknown. `why`: the end of the sentence.
    """

    what: str
    value: Callable[[Run], float | None]
    most: Callable[[Run, Facts], float | None]
    show: Callable[[float], str]
    why: str
    hidden: Callable[[Run], dict[str, Any]]


def _peak(_: Run, facts: Facts) -> float | None:
    gpu, layout = facts.job.gpu, facts.job.layout
    peak = gpu.peak(layout.precision) if gpu and layout else None
    return peak / 1e12 if peak else None


def _memory(_: Run, facts: Facts) -> float | None:
    return facts.job.gpu.memory_gib * 1.02 if facts.job.gpu else None


def _span(_: Run, facts: Facts) -> float | None:
    return None if facts.span is None else facts.span * _MORE + _ROUNDING


def _timed(run: Run) -> float:
    """The time of all steps behind the first line, whose steps may have run before it."""
    return total([*run.replaced, *run.windows][1:])


def _alone(run: Run) -> float | None:
    """The longest time that one line alone says, where only the log says how long a run took.

    None if the slow steps are no great part of it, or if several lines say about the same.
    """
    if not run.paid_seconds or any(one.seconds is not None for one in run.attempts):
        return None
    if "seconds" not in run.rates or run.lost_seconds.get("slow", 0.0) < _PART * run.paid_seconds:
        return None
    usual = SLOW * run.rates["seconds"].median
    times = [one.values.get("seconds", 0.0) for one in run.windows]
    if "seconds" in run.derived:  # a clock: lines between two of its times have the same
        times = [time for time, _ in itertools.groupby(times)]
    times = [0.0, *times, 0.0]
    near = zip(times, times[1:], times[2:], strict=False)
    alone = sorted(time for one, time, other in near if usual < time and max(one, other) <= usual)
    if not alone:
        return None
    is_often = sum(time > alone[-1] / 2 for time in times) > _OFTEN
    return None if is_often and alone[-1] < _UNIT * usual else alone[-1]


def _usual(run: Run, _: Facts) -> float | None:
    return _TIMES * run.rates["seconds"].median if "seconds" in run.rates else None


def _without_rates(*names: str) -> Callable[[Run], dict[str, Any]]:
    return lambda run: {
        "rates": {name: value for name, value in run.rates.items() if name not in names}
    }


def without_steps(_: Run) -> dict[str, Any]:
    """The changes that leave out all that depends on how many steps there were."""
    return {**_OF_STEPS, **_OF_TIME}


def _without_speed(run: Run) -> dict[str, Any]:
    """The changes that leave out all that depends on how many steps took how long."""
    why = "the steps and times of the log contradict its time stamps"
    return {**without_steps(run), "rates": {}, "efficiency": None, "no_steady_state": why}


_LIMITS: tuple[Limit, ...] = (
    Limit(
        "MFU",
        lambda run: run.efficiency.mfu if run.efficiency else None,
        lambda _, __: 1.0,
        share,
        "the model, batch or GPU of the spec is not that of the run, or the log's rate is another",
        lambda _: {"efficiency": None},
    ),
    Limit(
        "HFU",
        lambda run: run.efficiency.hfu if run.efficiency else None,
        lambda _, __: 1.0,
        share,
        "the model, batch, recomputation or GPU of the spec is not that of the run",
        lambda _: {"efficiency": None},
    ),
    Limit(
        "TFLOP/s per GPU that the log prints",
        lambda run: (
            run.rates["printed_tflops_per_gpu"].median
            if "printed_tflops_per_gpu" in run.rates
            else None
        ),
        _peak,
        number,
        "this GPU has no more in this precision",
        _without_rates("printed_tflops_per_gpu", "printed_mfu", "printed_hfu"),
    ),
    Limit(
        "memory in GiB",
        lambda run: run.peak_memory_gib,
        _memory,
        number,
        "the GPU has no more",
        lambda _: {"peak_memory_gib": None},
    ),
    Limit(
        "steps between two lines",
        lambda run: run.steps / len(run.windows) if run.steps and run.windows else None,
        lambda _, __: float(MOST_STEPS_A_LINE),
        lambda value: integer(round(value)),
        "the log may count samples or tokens",
        _without_speed,
    ),
    Limit(
        "the time of all steps",
        _timed,
        _span,
        duration,
        "that is what its time stamps span",
        _without_speed,
    ),
    Limit(
        "the time of a step in one line alone",
        _alone,
        _usual,
        duration,
        "no other line or record confirms it",
        lambda _: _OF_TIME,
    ),
    Limit(
        "the time of all attempts",
        lambda run: run.paid_seconds,
        lambda _, __: _YEARS,
        duration,
        "no job runs for longer",
        lambda _: _OF_TIME,
    ),
    Limit(
        "the rest of the training",
        lambda run: run.remaining_seconds,
        lambda _, __: _LONGEST,
        duration,
        "its length is not that of this training",
        lambda _: {"total_steps": None},
    ),
)


def plausible(run: Run, facts: Facts) -> Run:
    """The run without numbers that cannot be, and a note for each."""
    notes = list(run.notes)
    for limit in _LIMITS:
        value, most = limit.value(run), limit.most(run, facts)
        if value is not None and most is not None and not value <= most:
            notes.append(
                f"Not shown: {limit.what} would be {limit.show(value)}, more than "
                f"{limit.show(most)}: {limit.why}."
            )
            run = replace(run, **limit.hidden(run))
    return replace(run, notes=tuple(notes))


def left_out(found: Iterable[Odd]) -> Iterator[str]:
    """Sentences on values of the log that were left out, each quantity with its first lines."""
    by_name: dict[str, list[Odd]] = {}
    for one in found:
        by_name.setdefault(one.what, []).append(one)
    for name, ones in by_name.items():
        lines = ", ".join(f"{one.text} in line {integer(one.line)}" for one in ones)
        more = ones[0].values - len(ones)
        rest = f", and {integer(more)} more" if more else ""
        yield f"Left out, since no {name.replace('_', ' ')} can be that: {lines}{rest}."
