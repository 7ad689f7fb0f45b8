"""Splits the records of a log into attempts, and says which steps were kept.

A later attempt starts from a checkpoint, so it repeats steps: the last time that a step was trained
counts, and the earlier time is lost.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from clusterjobs.report.records import Event, Window


@dataclass(frozen=True)
class Part:
    """The windows of one attempt, or of one start inside it (torchrun restarts its ranks).

    `before`: the step that it started from, -1 if steps count from 0. Every window says how many
    steps it has.
    """

    attempt: int
    windows: tuple[Window, ...]
    events: tuple[Event, ...] = ()
    before: int = 0

    @property
    def last(self) -> int:
        return self.windows[-1].step if self.windows else self.before


def split(records: Iterable[Window | Event]) -> tuple[Part, ...]:
    """The parts in the order of the log, each with at least one window or event.

    A new one begins where the job's script says that an attempt starts, where a checkpoint is
    loaded behind steps, and where the steps fall back.
    """
    parts: list[Part] = []
    attempt, windows, events = 1, [], []  # type: int, list[Window], list[Event]

    def close() -> None:
        nonlocal windows, events
        if windows or events:
            parts.append(_part(attempt, windows, events))
        windows, events = [], []

    for record in records:
        if isinstance(record, Event):
            if record.kind == "attempt" and record.value:
                close()
                attempt = int(record.value)
            elif record.kind == "resumed" and windows:
                close()
            events.append(record)
            continue
        if windows and record.step <= windows[-1].step:
            close()
        windows.append(record)
    close()
    return tuple(parts)


def _part(attempt: int, windows: Sequence[Window], events: Sequence[Event]) -> Part:
    counted = _with_counts(windows)
    before = counted[0].step - (counted[0].steps or 0) if counted else 0
    said = [one.step for one in events if one.kind == "resumed" and one.step is not None]
    if said and counted and said[-1] < counted[0].step:
        before = said[-1]
        counted[0] = counted[0]._replace(steps=counted[0].step - before)
    return Part(attempt, tuple(counted), tuple(events), before)


def _with_counts(windows: Sequence[Window]) -> list[Window]:
    """Each window with its number of steps; of the first one, as many as most others have."""
    gaps = [after.step - one.step for one, after in itertools.pairwise(windows)]
    usual = statistics.mode(gaps) if gaps else 1
    if not windows:
        return []
    first = windows[0]
    counts = [min(first.steps or usual, max(first.step, 1)), *gaps]
    return [
        one if one.steps else one.with_steps(count)
        for one, count in zip(windows, counts, strict=True)
    ]


@dataclass(frozen=True)
class Kept:
    """A part with those of its windows that no later part has repeated, and the others."""

    part: Part
    kept: tuple[Window, ...]
    repeated: tuple[Window, ...]

    @property
    def kept_steps(self) -> int:
        return sum(one.steps or 0 for one in self.kept)

    @property
    def lost_steps(self) -> int:
        return sum(one.steps or 0 for one in self.repeated)


def keep(parts: Sequence[Part]) -> tuple[Kept, ...]:
    """Which steps count. A window that a later start cuts in two is split at that step."""
    kept: list[Kept] = []
    until: int | None = None  # the earliest start of the parts behind
    for part in reversed(parts):
        kept.append(_kept(part, until))
        if part.windows:
            until = part.before if until is None else min(until, part.before)
    return tuple(reversed(kept))


def _kept(part: Part, until: int | None) -> Kept:
    if until is None:
        return Kept(part, part.windows, ())
    good: list[Window] = []
    lost: list[Window] = []
    for window in part.windows:
        steps = window.steps or 0
        behind = window.step - until
        if behind <= 0:
            good.append(window)
        elif behind >= steps:
            lost.append(window)
        else:
            good.append(window._replace(step=until, steps=steps - behind))
            lost.append(window._replace(steps=behind))
    return Kept(replace(part), tuple(good), tuple(lost))
