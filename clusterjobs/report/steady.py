"""The steady state of a run: its speed after the start, without the steps that save or validate."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.report.records import Quantity, Window
from clusterjobs.report.run import Spread

FEWEST = 5  # windows: of fewer, no spread is given
_NEAR = 0.1  # a window this near to the median of the last half ends the warm-up
SLOW = 1.5  # times the median: such a window saved or validated, or waited


class Steady(NamedTuple):
    """`from_step`: the last step of the first attempt's warm-up. `why_not`: "" if there is one.

    `seconds`: the median of a step. `warm_up`: windows of the start of every attempt; `slow`: those
    that are much slower than the median; `usual`: all others, which the spread is of.
    """

    from_step: int | None
    seconds: float | None
    usual: tuple[Window, ...]
    warm_up: tuple[Window, ...]
    slow: tuple[Window, ...]
    why_not: str = ""


def find_steady(parts: Sequence[Sequence[Window]]) -> Steady:
    """The steady state of the windows of each attempt."""
    parts = [[one for one in part if pace(one)] for part in parts]
    parts = [part for part in parts if part]
    everything = [one for part in parts for one in part]
    if len(everything) < FEWEST:
        return Steady(None, None, (), (), (), _too_few(len(everything)))
    late = _late_pace(everything)
    usual: list[Window] = []
    warm_up: list[Window] = []
    from_step = None
    for part in parts:
        own = _late_pace(part) if len(part) >= FEWEST else late  # its nodes may be slower
        start = _end_of_warm_up(part, own)
        from_step = part[start - 1].step if from_step is None else from_step
        warm_up += part[:start]
        usual += part[start:]
    if len(usual) < FEWEST:
        return Steady(None, None, (), tuple(everything), (), _too_few(len(usual)))
    middle = _median_pace(usual)
    slow = tuple(one for one in usual if pace(one) > SLOW * middle)
    usual = [one for one in usual if pace(one) <= SLOW * middle]
    seconds = middle if "seconds" in usual[0].values else None
    return Steady(from_step, seconds, tuple(usual), tuple(warm_up), slow)


def _late_pace(windows: Sequence[Window]) -> float:
    """The median of the last half."""
    return _median_pace(windows[len(windows) // 2 :])


def _too_few(count: int) -> str:
    return f"too few lines with a speed after the start: {count}, and at least {FEWEST} are needed"


def _end_of_warm_up(part: Sequence[Window], late: float) -> int:
    """The first window is always left out: it compiles, allocates, and fills caches."""
    for place, one in enumerate(part[1:], 1):
        if abs(pace(one) - late) <= _NEAR * late:
            return place
    return len(part)


def pace(window: Window) -> float:
    """The time of a step, or of a sample if the batch is unknown; 0 if both are."""
    if seconds := window.values.get("seconds"):
        return seconds
    rate = window.values.get("samples_per_second") or window.values.get("tokens_per_second")
    rate = rate or window.values.get("tokens_per_second_per_gpu")
    return 1 / rate if rate else 0.0


def _median_pace(windows: Iterable[Window]) -> float:
    return _Ordered((pace(one), one.lines) for one in windows).point(0.5)


def spread_of(values: Iterable[tuple[float, int]]) -> Spread:
    """Median, 10 % and 90 % point and mean of at least one value with its number of lines."""
    values = list(values)
    ordered, count = _Ordered(values), sum(lines for _, lines in values)
    mean = sum(value * lines for value, lines in values) / count
    return Spread(ordered.point(0.5), ordered.point(0.1), ordered.point(0.9), mean, count)


class _Ordered:
    """Values in order, each as often as it has lines."""

    def __init__(self, values: Iterable[tuple[float, int]]) -> None:
        self._values = sorted(values)
        self._ends = [*itertools.accumulate(lines for _, lines in self._values)]

    def point(self, share: float) -> float:
        """The value that this share of all is below, between two values if need be."""
        place = share * (self._ends[-1] - 1)
        below, above = (self._at(number) for number in (math.floor(place), math.ceil(place)))
        return below + (above - below) * (place % 1)

    def _at(self, number: int) -> float:
        return self._values[bisect.bisect_right(self._ends, number)][0]


def spreads(windows: Sequence[Window], names: Iterable[Quantity]) -> Mapping[Quantity, Spread]:
    """The spread of each quantity that the windows have."""
    found = {
        name: [(one.values[name], one.lines) for one in windows if name in one.values]
        for name in names
    }
    return {name: spread_of(values) for name, values in found.items() if values}
