"""Splits the records of a log into attempts: which steps were kept, and where the time went.

A later attempt starts from a checkpoint, so it repeats steps: the last time that a step was trained
counts, and the earlier time is lost.
"""

import bisect
import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterjobs.report.logs.records import Event, Window
from clusterjobs.report.run import AttemptPart, LostTime, RecordedAttempt
from clusterjobs.report.values import Steady, total


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
            counted = _with_counts(windows)
            before_first = counted[0].step - (counted[0].steps or 0) if counted else 0
            said = [one.step for one in events if one.kind == "resumed" and one.step is not None]
            if said and counted and said[-1] < counted[0].step:
                before_first = said[-1]
                counted[0] = counted[0]._replace(steps=counted[0].step - before_first)
            parts.append(Part(attempt, tuple(counted), tuple(events), before_first))
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
        good: list[Window] = []
        lost: list[Window] = []
        for window in part.windows:
            steps = window.steps or 0
            behind = 0 if until is None else window.step - until
            if behind <= 0:
                good.append(window)
            elif behind >= steps:
                lost.append(window)
            else:
                good.append(window._replace(step=window.step - behind, steps=steps - behind))
                lost.append(window._replace(steps=behind))
        kept.append(Kept(part, tuple(good), tuple(lost)))
        if part.windows:
            until = part.before if until is None else min(until, part.before)
    return tuple(reversed(kept))


# Where the time of a run went: useful steps, and each kind of lost time. A step is useful if no
# later attempt repeated it. The steps of a start, and those that are much slower than the steady
# state, are useful for as long as a step of the steady state lasts.


_ROUNDING = 2.0  # seconds: the script counts whole ones
_LONGER = 1.02
_WAITS = 0.2  # of a step: a shorter wait for data is noise of the timers


def lost_in_steps(kept: Kept, steady: Steady) -> dict[LostTime, float]:
    """The time of the windows of one part beyond that of useful steps, by kind."""
    lost: defaultdict[LostTime, float] = defaultdict(float)
    lost["repeated"] += total(kept.repeated)
    if steady.seconds is None:
        return _positive(lost)
    ratio = forward_to_backward(steady.usual)
    warm_up, slow = _steps_of(steady.warm_up), _steps_of(steady.slow)
    not_usual = warm_up | slow
    happened = sorted((one.step, one.kind) for one in kept.part.events if one.step is not None)
    for window in kept.kept:
        lost["skipped"] += _usual_time(window, steady.seconds, not_usual) * _skipped(window)
        if window.step not in not_usual:
            continue
        steps = window.steps or 0
        excess = max(0.0, window.values.get("seconds", 0.0) - steady.seconds) * steps
        waited = min(excess, data_wait(window, ratio) * steps)
        lost["data_wait"] += waited
        lost[_kind(window, window.step in warm_up, happened)] += excess - waited
    return _positive(lost)


def useful_seconds(windows: Iterable[Window], steady: Steady) -> float | None:
    """The time of kept steps that is not lost; None without a steady state."""
    if steady.seconds is None:
        return None
    slow = _steps_of(steady.warm_up) | _steps_of(steady.slow)
    return sum(_usual_time(one, steady.seconds, slow) * (1 - _skipped(one)) for one in windows)


def _usual_time(window: Window, usual: float, slow: set[int]) -> float:
    """The time of its steps, as if those of `slow` were as fast as the steady state."""
    seconds = window.values.get("seconds", 0.0)
    return (min(seconds, usual) if window.step in slow else seconds) * (window.steps or 0)


def _skipped(window: Window) -> float:
    """The share of its steps that changed no weights."""
    return min(1.0, window.values.get("skipped", 0.0) / (window.steps or 1))


def _steps_of(windows: Iterable[Window]) -> set[int]:
    return {one.step for one in windows}


def _kind(window: Window, is_warm_up: bool, happened: Sequence[tuple[int, str]]) -> LostTime:
    """Why a window took longer than usual. `happened`: steps and kinds of events, in order."""
    begin = bisect.bisect_left(happened, (window.step - (window.steps or 0), ""))
    inside = {kind for _, kind in happened[begin : bisect.bisect_left(happened, (window.step, ""))]}
    if inside & {"saving", "saved"}:
        return "saving"
    if "validation" in inside:
        return "validation"
    return "warm_up" if is_warm_up else "slow"


def forward_to_backward(windows: Sequence[Window]) -> float | None:
    """The usual ratio of the two, None if the log does not time them."""
    found = [
        one.values["forward_seconds"] / one.values["backward_seconds"]
        for one in windows
        if one.values.get("forward_seconds") and one.values.get("backward_seconds")
    ]
    return statistics.median(found) if found else None


def data_wait(window: Window, usual: float | None) -> float:
    """Seconds that a step waited for its data, 0 if the log does not show it.

    The time of the data loader, if the log has it. Else the forward pass waits for data and the
    backward pass does not: what the forward pass takes beyond its usual ratio is waiting.
    """
    values = window.values
    if "data_seconds" in values:
        return values["data_seconds"]
    if usual is None or not {"forward_seconds", "backward_seconds"} <= values.keys():
        return 0.0
    waited = values["forward_seconds"] - usual * values["backward_seconds"]
    return waited if waited > _WAITS * values.get("seconds", 0.0) else 0.0


def lost_outside_steps(
    attempt: RecordedAttempt, in_steps: float | None, saves: float
) -> dict[LostTime, float]:
    """What an attempt of known length spent beside its steps, which took `in_steps` seconds.

    `in_steps` None: the log does not time them, so the rest is unknown. `saves`: time of saves that
    is in no step.
    """
    lost: dict[LostTime, float] = {
        "staging": attempt.staging or 0.0,
        "preflight": attempt.preflight or 0.0,
    }
    if attempt.seconds is not None and in_steps is not None:
        rest = max(0.0, attempt.seconds - in_steps)
        for part in lost:  # no more than there was: the lines may be of another clock
            lost[part] = min(lost[part], rest)
            rest -= lost[part]
        lost["saving"] = min(saves, rest)
        kind: LostTime = "starting" if attempt.number == 1 else "restart"
        lost["stalled" if attempt.reason == "stalled" else kind] = rest - lost["saving"]
    return _positive(lost)


def seconds_in_steps(kept: Iterable[Kept], attempt: int) -> float:
    """The time of all steps of an attempt, repeated ones included."""
    return sum(total(one.part.windows) for one in kept if one.part.attempt == attempt)


def are_timed(kept: Iterable[Kept]) -> bool:
    """Whether the log says how long steps took, or has no steps."""
    windows = [window for one in kept for window in one.part.windows]
    return not windows or any("seconds" in one.values for one in windows)


def longer_than_their_attempts(
    attempts: Iterable[AttemptPart], kept: Sequence[Kept]
) -> tuple[int, ...]:
    """The attempts whose steps took longer than they lasted.

    Some programs time one step of many, and their other steps were faster.
    """
    return tuple(
        one.number
        for one in attempts
        if one.seconds is not None
        and seconds_in_steps(kept, one.number) > _ROUNDING + _LONGER * one.seconds
    )


def measured_parts(
    attempts: Sequence[AttemptPart], kept: Sequence[Kept], steady: Steady
) -> set[LostTime]:
    """The parts that the log and the records can show: without a value, these were 0 seconds."""
    has_steps = steady.seconds is not None
    is_recorded = bool(attempts) and all(one.seconds is not None for one in attempts)
    values = {name for one in kept for window in one.kept for name in window.values}
    kinds = {event.kind for one in kept for event in one.part.events}
    has_waits = "data_seconds" in values or {"forward_seconds", "backward_seconds"} <= values
    shown: tuple[tuple[bool, tuple[LostTime, ...]], ...] = (
        (any(one.queue_seconds is not None for one in attempts), ("queue",)),
        (is_recorded, ("staging", "preflight")),
        (is_recorded and are_timed(kept), ("starting", "restart", "stalled")),
        (has_steps, ("warm_up", "slow", "repeated")),
        (has_steps and has_waits, ("data_wait",)),
        (has_steps and "skipped" in values, ("skipped",)),
        (has_steps and bool(kinds & {"saving", "saved"}), ("saving",)),
        (has_steps and "validation" in kinds, ("validation",)),
    )
    return {part for is_shown, parts in shown if is_shown for part in parts}


def _positive(lost: Mapping[LostTime, float]) -> dict[LostTime, float]:
    return {kind: seconds for kind, seconds in lost.items() if seconds > 0}


def added(parts: Iterable[Mapping[LostTime, float]]) -> dict[LostTime, float]:
    everything: defaultdict[LostTime, float] = defaultdict(float)
    for one in parts:
        for kind, seconds in one.items():
            everything[kind] += seconds
    return dict(everything)
