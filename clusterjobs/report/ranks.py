"""Which ranks are slower than the others, where the log has lines of all of them.

Ranks of a synchronous training differ in single steps by chance. So a rank is called slow only if
it was slower than the usual rank in nearly all steps, and by more than a few percent.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from clusterjobs.report.records import Quantity, SlowRank, Window

STEPS = 2000  # the last ones, that are compared
_FEWEST_STEPS = 10
_FEWEST_RANKS = 3
_OFTEN = 0.9  # of the steps
_SLOWER = 1.05
# What a rank does alone comes first: the time of a whole step is that of the slowest rank.
_COMPARED: tuple[Quantity, ...] = ("data_seconds", "forward_seconds", "backward_seconds", "seconds")
_RATES: tuple[Quantity, ...] = (
    *("tokens_per_second_per_gpu", "samples_per_second_per_gpu"),
    *("tokens_per_second", "samples_per_second"),
)


class RankTimes:
    """The times of the last steps, by quantity, step and rank."""

    def __init__(self) -> None:
        self._times: dict[Quantity, dict[int, dict[int, float]]] = {}

    def add(self, window: Window) -> None:
        """Remember the window, if it says which rank it is of."""
        if window.rank is None:
            return
        for name, value in window.values.items():
            if value > 0 and name in (*_COMPARED, *_RATES):
                steps = self._times.setdefault(name, {})
                time = 1 / value if name in _RATES else value
                steps.setdefault(window.step, {})[window.rank] = time
                if len(steps) > STEPS:
                    del steps[next(iter(steps))]

    def slow(self) -> tuple[SlowRank, ...]:
        """The slow ranks of the first quantity that shows any, the slowest first."""
        for name in (*_COMPARED, *_RATES):
            if found := _slow(name, self._times.get(name, {})):
                return tuple(sorted(found, key=lambda one: -one.ratio))
        return ()


def _slow(name: Quantity, steps: Mapping[int, Mapping[int, float]]) -> list[SlowRank]:
    ratios: dict[int, list[float]] = {}
    for times in steps.values():
        if len(times) >= _FEWEST_RANKS:
            usual = statistics.median(times.values())
            for rank, time in times.items():
                ratios.setdefault(rank, []).append(time / usual)
    found = []
    for rank, of_rank in ratios.items():
        often = sum(one > 1 for one in of_rank) / len(of_rank)
        ratio = statistics.median(of_rank)
        if len(of_rank) >= _FEWEST_STEPS and often >= _OFTEN and ratio >= _SLOWER:
            what = "a step" if name == "seconds" or name in _RATES else name.partition("_")[0]
            found.append(SlowRank(rank, ratio, often, len(of_rank), what))
    return found
