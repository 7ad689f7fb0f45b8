"""Keeps the number of windows bounded: neighbours are merged, and their extremes are kept.

So a log of any length fits into memory, and no spike of the loss is lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from clusterjobs.report.records import Event, Quantity, Window

MOST = 100_000  # records that are kept
_FEWER = 8  # windows that become one, when there are more
_LAST: frozenset[Quantity] = frozenset(("time", "learning_rate", "loss_scale", "batch", "sequence"))


class Thinned:
    """The records of a log. Of a long log, each kept window is of the same number of windows."""

    def __init__(self, most: int = MOST) -> None:
        self._most = self._limit = most
        self._kept: list[Window | Event] = []
        self._open: list[Window | Event] = []  # may be merged with what follows
        self._size = 1  # of a group

    def add(self, records: Iterable[Window | Event]) -> None:
        """Take the next records of the log."""
        if self._size == 1:
            self._kept += records
        else:
            *closed, self._open = _groups([*self._open, *records], self._size)
            self._kept += map(_merged, closed)
        if len(self._kept) > self._limit:
            self._size *= _FEWER
            self._kept = [_merged(group) for group in _groups(self._kept, _FEWER) if group]
            self._limit = max(self._most, 2 * len(self._kept))  # some cannot be merged

    def records(self) -> list[Window | Event]:
        """All of them, in the order of the log."""
        return [*self._kept, *(_merged(group) for group in (self._open,) if group)]


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


def _merged(group: Sequence[Window | Event]) -> Window | Event:
    windows = [one for one in group if isinstance(one, Window)]
    return merged(windows) if len(windows) > 1 else group[0]


def merged(windows: Sequence[Window]) -> Window:
    """All as one window: means by the number of steps, and the extremes."""
    counts = [one.steps for one in windows]
    weights = [count or 1 for count in counts] if len(set(counts)) > 1 else None
    columns = _columns([one.values for one in windows])
    lows = highs = columns
    if any(one.low for one in windows):
        lows = _columns([one.low or one.values for one in windows])
        highs = _columns([one.high or one.values for one in windows])
    return Window(
        windows[-1].step,
        {name: _value(name, column, windows, weights) for name, column in columns.items()},
        None if None in counts else sum(filter(None, counts)),
        windows[-1].rank,
        {name: min(column) for name, column in lows.items()},
        {name: max(column) for name, column in highs.items()},
    )


def _columns(rows: Sequence[Mapping[Quantity, float]]) -> dict[Quantity, Sequence[float]]:
    """The values of each quantity, of those rows that have it."""
    if len({tuple(row) for row in rows}) == 1:  # as nearly always
        return dict(zip(rows[0], zip(*(row.values() for row in rows), strict=True), strict=True))
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    return {name: [row[name] for row in rows if name in row] for name in names}


def _value(
    name: Quantity,
    column: Sequence[float],
    windows: Sequence[Window],
    weights: Sequence[int] | None,
) -> float:
    if name in _LAST:
        return column[-1]
    if name == "skipped":
        return sum(column)
    if name == "memory_gib":
        return max(column)
    if weights is None:
        return sum(column) / len(column)
    pairs = zip(windows, weights, strict=True)
    having = [(one.values[name], weight) for one, weight in pairs if name in one.values]
    return sum(value * weight for value, weight in having) / sum(weight for _, weight in having)
