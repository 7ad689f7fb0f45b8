"""What a plot shows, in a sentence and in a table: for those who cannot see it, and for paper.

It knows curves; it must not know HTML.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from clusterjobs.counted import counted
from clusterjobs.report.numbers import integer
from clusterjobs.report.page.curves import Curve, Plot
from clusterjobs.report.page.points import Point
from clusterjobs.report.tables import Table

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
