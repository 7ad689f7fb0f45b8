"""Keeps the number of windows bounded: neighbours are merged, and their extremes are kept.

So a log of any length fits into memory, and no spike of the loss is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from clusterjobs.report.records import Event, Quantity, Window

_LAST: frozenset[Quantity] = frozenset(("time", "learning_rate", "loss_scale", "batch", "sequence"))


def halve(records: Iterable[Window | Event]) -> list[Window | Event]:
    """Each two windows in a row as one; not over an event, or where the steps fall back."""
    thin: list[Window | Event] = []
    open_pair: Window | None = None
    for record in records:
        if isinstance(record, Window) and open_pair and record.step > open_pair.step:
            thin.append(merged(open_pair, record))
            open_pair = None
            continue
        if open_pair:
            thin.append(open_pair)
            open_pair = None
        if isinstance(record, Window):
            open_pair = record
        else:
            thin.append(record)
    return [*thin, open_pair] if open_pair else thin


def merged(first: Window, second: Window) -> Window:
    """Both as one window: means by the number of steps, and the extremes of both."""
    weights = float(first.steps or 1), float(second.steps or 1)
    values = {
        name: _value(name, first.values.get(name), second.values.get(name), *weights)
        for name in {**first.values, **second.values}
    }
    steps = first.steps + second.steps if first.steps and second.steps else None
    low = _extremes(min, {**first.values, **first.low}, {**second.values, **second.low})
    high = _extremes(max, {**first.values, **first.high}, {**second.values, **second.high})
    return Window(second.step, values, steps, second.rank, low, high)


def _extremes(
    choose: Callable[[float, float], float],
    first: Mapping[Quantity, float],
    second: Mapping[Quantity, float],
) -> dict[Quantity, float]:
    both = {**first, **second}
    return {name: choose(first.get(name, value), value) for name, value in both.items()}


def _value(
    name: Quantity, first: float | None, second: float | None, weight: float, second_weight: float
) -> float:
    if first is None or second is None:
        return first if second is None and first is not None else second or 0.0
    if name == "skipped":
        return first + second
    if name == "memory_gib":
        return max(first, second)
    if name in _LAST:
        return second
    return (first * weight + second * second_weight) / (weight + second_weight)
