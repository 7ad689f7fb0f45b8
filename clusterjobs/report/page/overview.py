"""The answer in a few large numbers: how fast, how efficient, what was lost, what it cost.

It knows a run; it must not know HTML.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterjobs.counted import counted
from clusterjobs.report.logs.records import Quantity
from clusterjobs.report.page.curves import Curve, Plot
from clusterjobs.report.page.points import Point
from clusterjobs.report.run import Run, Spread
from clusterjobs.report.tables import (
    Table,
    dollars,
    duration,
    integer,
    loss,
    number,
    seconds,
    share,
)


class Fact(NamedTuple):
    """`label` and `value` are read together; `details`: short texts below them."""

    label: str
    value: str
    unit: str = ""
    details: tuple[str, ...] = ()


def subtitle(run: Run) -> str:
    parts = [
        run.framework,
        f"job {run.job_id}" if run.job_id else "",
        counted(run.nodes, "node") if run.nodes else "",
        counted(run.gpus, "GPU") if run.gpus else "",
        counted(len(run.attempts), "attempt") if run.attempts else "",
        _steps(run),
    ]
    return " · ".join(part for part in parts if part)


def facts(run: Run) -> list[Fact]:
    """Those that are known, the most wanted first."""
    parts = (_throughput, _efficiency, _goodput, _loss, _cost)
    return [fact for part in parts for fact in part(run)]


def last_value(run: Run, quantity: Quantity) -> tuple[int, float] | None:
    """The newest value of the log, with its step."""
    for window in reversed(run.windows):
        if quantity in window.values:
            return window.step, window.values[quantity]
    return None


def _steps(run: Run) -> str:
    if run.steps is None:
        return ""
    of = f" of {integer(run.total_steps)}" if run.total_steps else ""
    return f"{integer(run.steps)}{of} steps"


def _throughput(run: Run) -> Iterator[Fact]:
    names: tuple[tuple[Quantity, str], ...] = (
        ("tokens_per_second", "tokens/s"),
        ("samples_per_second", "samples/s"),
    )
    known = [(run.rates[name], unit) for name, unit in names if name in run.rates]
    time = run.rates.get("seconds")
    details = [f"{number(rate.median)} {unit}" for rate, unit in known[1:]]
    details += [_step_time(time)] if time else []
    if known:
        if run.steady_from is not None:
            details.append(f"steady state from step {integer(run.steady_from)}")
        yield Fact("Throughput", number(known[0][0].median), known[0][1], tuple(details))
    elif run.mean_samples_per_second is not None:
        why = run.no_steady_state or "no steady state"
        mean = number(run.mean_samples_per_second)
        yield Fact("Throughput, mean of all steps", mean, "samples/s", (why,))
    elif time:
        yield Fact("Time of a step", seconds(time.median), "", (_step_time(time),))
    elif run.no_steady_state:
        yield Fact("Throughput", "unknown", "", (run.no_steady_state,))


def _step_time(time: Spread) -> str:
    return f"{seconds(time.median)} a step ({seconds(time.p10)} to {seconds(time.p90)})"


def _efficiency(run: Run) -> Iterator[Fact]:
    found = run.efficiency
    if found is None:
        printed = run.rates.get("printed_mfu")
        if printed:
            yield Fact("MFU", share(printed.median), "", ("as the framework prints it",))
        return
    model = f"{number(found.tflops_per_gpu_mfu, 3)} TFLOP/s per GPU for the model"
    if found.mfu is None:
        yield Fact("Model FLOP", number(found.tflops_per_gpu_mfu, 3), "TFLOP/s per GPU")
        return
    details = [model]
    if found.hfu is not None and found.tflops_per_gpu_hfu is not None:
        hardware = number(found.tflops_per_gpu_hfu, 3)
        details.append(f"HFU {share(found.hfu)} with recomputation: {hardware} TFLOP/s")
    peak = number(found.peak_tflops) if found.peak_tflops else ""
    details += [f"of {peak} TFLOP/s ({found.gpu})"] if peak else []
    yield Fact("MFU", share(found.mfu), "", tuple(details))


def _goodput(run: Run) -> Iterator[Fact]:
    if run.goodput is None:
        return
    details = [f"of {duration(run.paid_seconds)} paid"] if run.paid_seconds else []
    if run.lost_steps:
        details.append(f"{counted_large(run.lost_steps, 'step')} repeated")
    if run.skipped_steps:
        details.append(f"{counted_large(run.skipped_steps, 'step')} skipped")
    yield Fact("Goodput", share(run.goodput), "", tuple(details))


def _loss(run: Run) -> Iterator[Fact]:
    if last := last_value(run, "loss"):
        details = [f"at step {integer(last[0])}"]
        if validation := last_value(run, "validation_loss"):
            details.append(f"validation {loss(validation[1])} at step {integer(validation[0])}")
        yield Fact("Loss", loss(last[1]), "", tuple(details))


def _cost(run: Run) -> Iterator[Fact]:
    if run.cost:
        details = [run.cost.price]
        if run.cost.lost_dollars is not None:
            details.insert(0, f"{dollars(run.cost.lost_dollars)} of it for lost time")
        yield Fact("Cost", dollars(run.cost.dollars), "", tuple(details))


def counted_large(count: int, noun: str) -> str:
    return f"{integer(count)} {noun}{'' if count == 1 else 's'}"


# ------------------------------------------------------------------ summary
#
# What a plot shows, in a sentence and in a table: for those who cannot see it, and for paper.


_ROWS, _FEWEST_ROWS = 40, 10
_CELLS = 240
_RATES = {"tokens_per_second", "samples_per_second", "seconds", "grad_norm"}


def sentence(plot: Plot) -> str:
    """The course of the first curve, or the last values of several runs."""
    if plot.of_one_run:
        return _course(plot, plot.curves[0].points)
    last = sorted(
        (numbers[-1].value or 0.0, curve.name)
        for curve in plot.curves
        if (numbers := _numbers(curve.points))
    )
    if not last:
        return _without_number(plot.curves[0].points)
    low, high = last[0], last[-1]
    if len(last) == 1:
        return f"Last value {plot.text(low[0])} ({low[1]})."
    text = f"{counted(len(last), 'run')}. Last values: lowest {plot.text(low[0])} ({low[1]})"
    return f"{text}, highest {plot.text(high[0])} ({high[1]})."


def values_table(plot: Plot) -> Table:
    """Each value if they are few, else the median of ranges of steps; of one curve, extremes."""
    steps = sorted({step for curve in plot.curves for step, _ in curve.points})
    most = max(_FEWEST_ROWS, min(_ROWS, _CELLS // len(plot.curves)))
    if len(steps) <= most:
        return _each_value(plot, steps)
    ranges = _ranges(steps[0], steps[-1], most)
    head = ("Steps", *_head(plot))
    rows = []
    for start, end in ranges:
        groups = [_within(curve.points, start, end) for curve in plot.curves]
        if any(groups):
            row = (cell for group in groups for cell in _cells(plot, group))
            rows.append((f"{integer(start)} to {integer(end)}", *row))
    return Table(plot.title, head, tuple(rows))


def _course(plot: Plot, points: Sequence[Point]) -> str:
    numbers = [(value, step) for step, value in points if value is not None]
    if not numbers:
        return _without_number(points)
    first, last, low, high = numbers[0], numbers[-1], min(numbers), max(numbers)
    if first[1] == last[1]:
        return f"{_at(plot, first)}. {_without_number(points)}".rstrip()
    if plot.text(low[0]) == plot.text(high[0]):
        steps = f"from step {integer(first[1])} to {integer(last[1])}"
        return f"Always {plot.text(last[0])}, {steps}. {_without_number(points)}".rstrip()
    if plot.quantity in _RATES:
        parts = [f"Median {plot.text(statistics.median(value for value, _ in numbers))}"]
        said = set()
    else:
        parts = [f"From {_at(plot, first)} to {_at(plot, last)}"]
        said = {plot.text(first[0]), plot.text(last[0])}
    for name, found in (("lowest", low), ("highest", high)):
        if plot.text(found[0]) not in said:
            parts.append(f"{name} {_at(plot, found)}")
    return f"{', '.join(parts)}. {_without_number(points)}".rstrip()


def _at(plot: Plot, found: tuple[float, int]) -> str:
    return f"{plot.text(found[0])} at step {integer(found[1])}"


def _without_number(points: Sequence[Point]) -> str:
    missing = [step for step, value in points if value is None]
    if not missing:
        return ""
    where = f"first at step {integer(missing[0])}"
    return f"Not a number in {counted(len(missing), 'line')}, {where}."


def _numbers(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.value is not None]


def _each_value(plot: Plot, steps: Sequence[int]) -> Table:
    values = [dict(curve.points) for curve in plot.curves]
    head = ("Step", *(_name(plot, curve) for curve in plot.curves))
    rows = [
        (integer(step), *(_text(plot, one[step]) if step in one else "" for one in values))
        for step in steps
    ]
    return Table(plot.title, head, tuple(rows))


def _ranges(first: int, last: int, most: int) -> list[tuple[int, int]]:
    width = -(-(last - first + 1) // most)
    return [(start, min(last, start + width - 1)) for start in range(first, last + 1, width)]


def _within(points: Sequence[Point], start: int, end: int) -> Sequence[Point]:
    first = bisect_left(points, start, key=lambda point: point.step)
    return points[first : bisect_right(points, end, key=lambda point: point.step)]


def _head(plot: Plot) -> list[str]:
    if len(plot.curves) == 1:
        return ["Lowest", "Median", "Highest"]
    return [f"{_name(plot, curve)}, median" for curve in plot.curves]


def _name(plot: Plot, curve: Curve) -> str:
    return curve.name[:1].upper() + curve.name[1:] if plot.of_one_run else curve.name


def _cells(plot: Plot, points: Sequence[Point]) -> tuple[str, ...]:
    alone = len(plot.curves) == 1
    if not points:
        return ("",) * (3 if alone else 1)
    numbers = [value for _, value in points if value is not None]
    if not numbers:
        return ("not a number",) * (3 if alone else 1)
    found = (min(numbers), statistics.median(numbers), max(numbers))
    return tuple(plot.text(value) for value in (found if alone else found[1:2]))


def _text(plot: Plot, value: float | None) -> str:
    return "not a number" if value is None else plot.text(value)
