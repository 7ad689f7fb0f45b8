"""The points of a curve; many are thinned to medians and extremes, so that no spike is lost.

It knows windows and quantities; it must not know how points are drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clusterjobs.report.logs.records import Quantity, Window

_LARGEST = 1e300  # the difference of two of them is still a number
_LARGEST_STEP = 2**53  # of the whole numbers that JavaScript has


class Point(NamedTuple):
    """`value` is None where the log has no number (NaN or infinite), or where a curve has a gap."""

    step: int
    value: float | None


def points_of(windows: Iterable[Window], quantity: Quantity) -> list[Point]:
    """By step. Of two windows of one step the later counts; merged ones also give extremes."""
    found: dict[int, float | None] = {}
    for window in windows:
        if quantity not in window.values or not 0 <= window.step <= _LARGEST_STEP:
            continue
        if quantity in window.low and quantity in window.high:
            third = (window.steps or 3) // 3
            found[max(0, window.step - 2 * third)] = _finite(window.low[quantity])
            found[max(0, window.step - third)] = _finite(window.high[quantity])
        found[window.step] = _finite(window.values[quantity])
    return [Point(step, found[step]) for step in sorted(found)]


def with_gaps(windows: Sequence[Window], quantity: Quantity) -> list[Point]:
    """Points of windows that are not one sequence: a gap wherever the step falls back."""
    found = {point.step: point for point in points_of(windows, quantity)}
    for before, after in itertools.pairwise(windows):
        gap = before.step + 1
        if after.step <= before.step and gap not in found:
            found[gap] = Point(gap, None)
    return [found[step] for step in sorted(found)]


class Thinned(NamedTuple):
    """Of each bucket the middle step, median and extremes; no extremes if all points fit."""

    steps: list[int]
    values: list[float | None]
    low: list[float | None]
    high: list[float | None]


def thin(points: Sequence[Point], limit: int) -> Thinned:
    """At most `limit` extremes. A bucket in which most values are no numbers is a gap."""
    if len(points) <= limit:
        return Thinned([one.step for one in points], [one.value for one in points], [], [])
    buckets = max(1, limit // 2)
    found = Thinned([], [], [], [])
    for number in range(buckets):
        start, end = (len(points) * side // buckets for side in (number, number + 1))
        bucket = points[start:end]
        numbers = sorted(value for _, value in bucket if value is not None)
        is_gap = 2 * len(numbers) < len(bucket)
        found.steps.append(bucket[len(bucket) // 2].step)
        found.values.append(None if is_gap else numbers[len(numbers) // 2])
        found.low.append(numbers[0] if numbers else None)
        found.high.append(numbers[-1] if numbers else None)
    found.steps[0], found.steps[-1] = points[0].step, points[-1].step  # the whole width of the plot
    return found


def _finite(value: float) -> float | None:
    return value if abs(value) < _LARGEST else None
