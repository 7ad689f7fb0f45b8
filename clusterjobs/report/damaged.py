"""Finds single values of a log that the lines around them contradict: swapped, cut or damaged.

A value within its bounds (`logs/bounds.py`) can still be wrong: a digit of the step has changed,
or a loss is in another column. A step has to lie between those of its neighbours. A first or last
loss, a memory or a count that is far from those of the lines near it is named, and not used.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.report.logs.records import Event, Quantity, Window
from clusterjobs.report.tables import integer, number

_NEAR = 8  # windows that the value of one is compared with
_FEWEST = 3  # distances of steps before one that lines before and behind contradict
_FARTHER = 3  # times the largest distance between neighbouring steps; 2 if all are equal
_JUMP = 0.5  # of a usual loss, beyond what its neighbours differ
_LARGER = 1.2  # times the memory of all other lines
_TIMES = 10  # the largest loss behind it: so large a first loss is none
_STARTS = ("attempt", "resumed", "end")
Record = Window | Event


class Undamaged(NamedTuple):
    """The records without values that are contradicted; `notes` name these."""

    records: tuple[Record, ...]
    notes: tuple[str, ...]


def undamaged(records: Sequence[Record]) -> Undamaged:
    steps, found = _of_steps(records)
    named = [f"step {integer(one.step)}" for one in found]
    windows = [(place, one) for place, one in enumerate(steps) if isinstance(one, Window)]
    changed = list(steps)
    outliers: dict[Quantity, list[int]] = {
        "loss": _odd_losses(windows),
        "memory_gib": _odd_memory(windows),
        "skipped": _odd_skips(windows),
    }
    for name, places in outliers.items():
        for place in places:
            window = changed[place]
            assert isinstance(window, Window)
            values = dict(window.values)
            value = values.pop(name)
            shown = (
                f"memory {number(value)} GiB" if name == "memory_gib" else f"{name} {number(value)}"
            )
            named.append(f"{shown} at step {integer(window.step)}")
            changed[place] = window.with_values(values)
    if not named:
        return Undamaged(tuple(records), ())
    first, more = ", ".join(named[:3]), len(named) - 3
    rest = f", and {integer(more)} more" if more > 0 else ""
    why = f"Left out, since the lines around say otherwise: {first}{rest}."
    return Undamaged(tuple(changed), (why,))


def _of_steps(records: Sequence[Record]) -> tuple[list[Record], list[Window]]:
    """The records, and the windows that were left out: their step is not between its neighbours'.

    Only between windows that go on from one to the next: a restart has none. The last window may
    be the first one after a restart, which the lines behind it will show.
    """
    kept: list[Record] = []
    out: list[Window] = []
    gaps: list[int] = []  # between windows that were kept
    before: Window | None = None
    is_first = True
    for record, behind in zip(records, _behind(records), strict=True):
        if isinstance(record, Event):
            kept.append(record)
            before = None if record.kind in _STARTS else before
            continue
        if before:
            contradicts = _is_out(record, before, behind, gaps)
        else:
            contradicts = is_first and behind is not None and record.step > behind.step
        if contradicts and record.lines == 1 and record.values:
            out.append(record)
            continue
        if before and record.step > before.step:
            gaps = [*gaps[1 - _NEAR :], record.step - before.step]
        kept.append(record)
        before, is_first = record, False
    return kept, out


def _behind(records: Sequence[Record]) -> list[Window | None]:
    """The window behind each record of the same start, None behind the last."""
    found: list[Window | None] = []
    behind: Window | None = None
    for record in reversed(records):
        found.append(behind)
        if isinstance(record, Window):
            behind = record
        elif record.kind in _STARTS:
            behind = None
    return found[::-1]


def _is_out(window: Window, before: Window, behind: Window | None, gaps: Sequence[int]) -> bool:
    """Whether a step contradicts those around it. `gaps`: the last distances of steps."""
    if len(gaps) < (_FEWEST if behind else _NEAR - 1):
        return False
    farthest = before.step + max(gaps) * (2 if len(set(gaps)) == 1 else _FARTHER)
    if behind:
        usual = statistics.median(gaps) if window.step <= farthest else 0
        goes_on = behind.step - before.step >= usual
        return goes_on and not before.step <= window.step <= behind.step
    return not before.step <= window.step <= farthest


def _odd_losses(windows: Sequence[tuple[int, Window]]) -> list[int]:
    """Places of a first or last loss that is far from those next to it.

    The others are points of a curve, which shows them as they are; these are named as the result.
    The first losses fall fast, so that only a much larger one is odd.
    """
    places = [(place, one.values["loss"]) for place, one in windows if "loss" in one.values]
    found = []
    for is_first, (one, *near) in ((True, places), (False, places[::-1])) if places else ():
        others, (place, loss) = [value for _, value in near[:_NEAR]], one
        if len(others) < _NEAR or not all(map(math.isfinite, (*others, loss))):
            continue
        least, most = min(others), max(others)
        room = most - least + _JUMP * abs(statistics.median(others))
        highest = max(most + room, _TIMES * most) if is_first else most + room
        if not least - room <= loss <= highest:
            found.append(place)
    return found


def _odd_skips(windows: Sequence[tuple[int, Window]]) -> list[int]:
    """Places of more skipped steps than there were since the line that counted them before.

    The first line may count those of an earlier start.
    """
    counted = [(place, one) for place, one in windows if "skipped" in one.values]
    return [
        place
        for (_, before), (place, one) in itertools.pairwise(counted)
        if 0 < one.step - before.step < one.values["skipped"]
    ]


def _odd_memory(windows: Sequence[tuple[int, Window]]) -> list[int]:
    """Places of a memory that one line alone says: a peak is printed again."""
    name: Quantity = "memory_gib"
    places = [(one.values[name], place) for place, one in windows if name in one.values]
    if len(places) <= _NEAR:
        return []
    (second, _), (most, place) = sorted(places)[-2:]
    return [place] if most > _LARGER * second else []
