"""Keeps the number of windows bounded: neighbours that are alike are merged.

So a log of any length fits into memory, and no spike, slow step or NaN is lost: of each group of
neighbours, the slow ones and those without a loss are merged apart from the usual ones.
"""

import itertools
import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import cast

from clusterjobs.report.logs.forms import Rows
from clusterjobs.report.logs.records import Event, Quantity, Window
from clusterjobs.report.values import pace

MOST = 100_000  # records that are kept
_FEWER = 8  # neighbours of one group, when there are more
_SLOW = 1.2  # times the median of the group; less than `steady.SLOW`
_LAST: frozenset[Quantity] = frozenset(
    ("time", "elapsed", "learning_rate", "loss_scale", "batch", "sequence")
)
_RATES: frozenset[Quantity] = frozenset(
    (
        *("samples_per_second", "tokens_per_second"),
        *("samples_per_second_per_gpu", "tokens_per_second_per_gpu"),
    )
)


class Thinned:
    """The records of a log."""

    def __init__(self, most: int = MOST) -> None:
        self._most = self._limit = most
        self._kept: list[Window | Event] = []
        self._open: list[Window | Event] = []  # may be merged with what follows
        self._before: int | None = None  # the step before `_open`
        self._size = 1  # records of a group

    def add(self, records: Iterable[Window | Event]) -> None:
        if self._size == 1:
            self._kept += records
        else:
            *closed, self._open = _groups([*self._open, *records], self._size)
            for group in closed:
                self._take(group)
        if len(self._kept) > self._limit:
            self._thin()

    @property
    def is_merging(self) -> bool:
        return self._size > 1

    def add_rows(self, rows: Rows) -> None:
        """Windows in a row of finite values, each of which has them all."""
        self._take(self._open)
        self._open = []
        for start in range(0, len(rows.steps), self._size):
            part = rows.part(start, start + self._size)
            if len(part.steps) > 1 and _are_alike(part):
                counts = _counts(part.steps, self._before)
                self._kept.append(merged_rows(part, counts))
                self._before = part.steps[-1]
            else:
                self._take(part.windows())
        if len(self._kept) > self._limit:
            self._thin()

    def records(self) -> list[Window | Event]:
        """All of them, in the order of the log."""
        return [*self._kept, *_merged(self._open, self._before)]

    def _thin(self) -> None:
        self._size *= _FEWER
        for size in (_FEWER, _FEWER**2):  # the second, if the neighbours are not alike
            groups, self._kept, self._before = _groups(self._kept, size), [], None
            for group in groups:
                self._take(group)
            if len(self._kept) <= self._most / 2:
                break
        self._limit = max(self._most, 2 * len(self._kept))  # some cannot be merged

    def _take(self, group: Sequence[Window | Event]) -> None:
        self._kept += _merged(group, self._before)
        if group and isinstance(group[-1], Window):
            self._before = group[-1].step


def _groups(records: Iterable[Window | Event], size: int) -> list[list[Window | Event]]:
    """Windows in a row; not over an event, or where the steps fall back. The last may be empty."""
    groups: list[list[Window | Event]] = [[]]
    for record in records:
        group = groups[-1]
        if group and (len(group) == size or not _follows(group[-1], record)):
            groups.append([record])
        else:
            group.append(record)
    return groups


def _follows(before: Window | Event, record: Window | Event) -> bool:
    if isinstance(before, Event) or isinstance(record, Event):
        return False
    return record.step > before.step


def _merged(group: Sequence[Window | Event], before: int | None) -> Sequence[Window | Event]:
    """A group as one window or a few."""
    windows = [one for one in group if isinstance(one, Window)]
    if len(windows) < 2:
        return group
    counts = [
        one.steps or gap
        for one, gap in zip(windows, _counts([one.step for one in windows], before), strict=True)
    ]
    paces = [pace(one) for one in windows]
    losses = [one.values.get("loss", 0.0) for one in windows]
    if max(paces) <= _SLOW * min(paces) and math.isfinite(sum(paces) + sum(losses)):
        return [merged(windows, counts)]  # of one kind
    return _by_kind(windows, counts)


def _counts(steps: Sequence[int], before: int | None) -> list[int]:
    """How many steps each of several windows has.

    Without a step before it, the first one has as many as the second.
    """
    gaps = [after - one for one, after in itertools.pairwise(steps)]
    first = steps[0]
    return [first - before if before is not None and before < first else min(gaps[0], first), *gaps]


def _are_alike(rows: Rows) -> bool:
    """Whether none of them is slow, and each has the value that its pace is taken from."""
    names = "seconds", "samples_per_second", "tokens_per_second", "tokens_per_second_per_gpu"
    column = next((rows.values[name] for name in names if name in rows.values), [1.0])
    return min(column) > 0 and max(column) <= _SLOW * min(column)


def _by_kind(windows: Sequence[Window], counts: Sequence[int]) -> list[Window]:
    """A window for the usual ones, slow ones, and those whose loss is not a number or infinite.

    A slow one at the start of a group is one of its own: it may have waited for a checkpoint.
    """
    paces = [pace(one) for one in windows]
    limit = _SLOW * statistics.median_low(paces)
    kinds: dict[Hashable, list[tuple[Window, int]]] = {}
    for place, (one, count, own) in enumerate(zip(windows, counts, paces, strict=True)):
        loss = one.values.get("loss", 0.0)
        is_slow = own > limit
        kind = is_slow, is_slow and place == 0, None if math.isfinite(loss) else str(loss)
        kinds.setdefault(kind, []).append((one, count))
    found = [merged(*zip(*pairs, strict=True)) for pairs in kinds.values()]
    return sorted(found, key=lambda one: one.step)


def merged(windows: Sequence[Window], counts: Sequence[int]) -> Window:
    """All as one window: means by their numbers of steps, and the extremes."""
    if len(windows) == 1:
        return windows[0].with_steps(counts[0])
    weights = counts if len(set(counts)) > 1 else None
    columns = _columns([one.values for one in windows])
    lows = highs = columns
    if any(one.low for one in windows):
        lows = _columns([one.low or one.values for one in windows])
        highs = _columns([one.high or one.values for one in windows])
    return Window(
        windows[-1].step,
        {
            name: _value(
                name,
                column,
                weights
                and [
                    weight
                    for one, weight in zip(windows, weights, strict=True)
                    if name in one.values
                ],
            )
            for name, column in columns.items()
        },
        sum(counts),
        windows[-1].rank,
        {name: min(column) for name, column in lows.items()},
        {name: max(column) for name, column in highs.items()},
        sum([one.lines for one in windows]),
    )


def merged_rows(rows: Rows, counts: Sequence[int]) -> Window:
    """Merge the rows as `merged` does."""
    weights = counts if len(set(counts)) > 1 else None
    values = cast("dict[Quantity, list[float]]", rows.values)
    return Window(
        rows.steps[-1],
        {name: _value(name, column, weights) for name, column in values.items()},
        sum(counts),
        None,
        {name: min(column) for name, column in values.items()},
        {name: max(column) for name, column in values.items()},
        len(counts),
    )


def _columns(rows: Sequence[Mapping[Quantity, float]]) -> dict[Quantity, Sequence[float]]:
    """The values of each quantity, of those rows that have it."""
    if len({tuple(row) for row in rows}) == 1:  # as nearly always
        return dict(zip(rows[0], zip(*(row.values() for row in rows), strict=True), strict=True))
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    return {name: [row[name] for row in rows if name in row] for name in names}


def _value(name: Quantity, column: Sequence[float], weights: Sequence[int] | None) -> float:
    if name in _LAST:
        return column[-1]
    if name == "skipped":
        return sum(column)
    if name == "memory_gib":
        return max(column)
    if name in _RATES and min(column) > 0:  # of the same steps, the times add up
        return 1 / _mean([1 / value for value in column], weights)
    return _mean(column, weights)


def _mean(column: Sequence[float], weights: Sequence[int] | None) -> float:
    if weights is None:
        return sum(column) / len(column)
    pairs = zip(column, weights, strict=True)
    return sum([value * weight for value, weight in pairs]) / sum(weights)
