"""The points of a curve, thinned so that no spike is lost.

It knows windows and quantities; it must not know how points are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clusterjobs.report.records import Quantity, Window

_LARGEST_STEP = 2**53  # of the whole numbers that JavaScript has


class Point(NamedTuple):
    """`value` is None where the log has no number (NaN or infinite), or where a curve has a gap."""

    step: int
    value: float | None


def points_of(windows: Iterable[Window], quantity: Quantity) -> list[Point]:
    """By step. Of two windows with one step the later counts; merged ones give both extremes."""
    found: dict[int, float | None] = {}
    for window in windows:
        if quantity not in window.values or not 0 <= window.step <= _LARGEST_STEP:
            continue
        low = window.low.get(quantity, window.values[quantity])
        high = window.high.get(quantity, low)
        if low != high:
            found[max(0, window.step - (window.steps or 2) // 2)] = _finite(low)
        found[window.step] = _finite(high)
    return [Point(step, found[step]) for step in sorted(found)]


def with_gaps(windows: Sequence[Window], quantity: Quantity) -> list[Point]:
    """Points of windows that are not one sequence: a gap wherever the step falls back."""
    found = {point.step: point for point in points_of(windows, quantity)}
    for before, after in zip(windows, windows[1:], strict=False):
        gap = before.step + 1
        if after.step <= before.step and gap not in found:
            found[gap] = Point(gap, None)
    return [found[step] for step in sorted(found)]


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """At most `limit` points: of each bucket the lowest, the highest, and the first without number."""
    if len(points) <= limit:
        return list(points)
    kept = {0, len(points) - 1}
    per_bucket = 3 if any(point.value is None for point in points) else 2
    buckets = max(1, (limit - 2) // per_bucket)
    for number in range(buckets):
        start, end = (len(points) * side // buckets for side in (number, number + 1))
        kept |= _extremes(points, range(start, end))
    return [points[index] for index in sorted(kept)]


def _extremes(points: Sequence[Point], indices: range) -> set[int]:
    numbers = [(value, i) for i in indices if (value := points[i].value) is not None]
    found = {min(numbers)[1], max(numbers)[1]} if numbers else set()
    return found | set(next(([i] for i in indices if points[i].value is None), []))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
