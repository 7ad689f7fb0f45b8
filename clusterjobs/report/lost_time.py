"""Where the time of a run went: useful steps, and each kind of lost time.

A step is useful if no later attempt repeated it, and as long as a step of the steady state lasts.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from clusterjobs.report.attempts import Kept
from clusterjobs.report.job import RecordedAttempt
from clusterjobs.report.records import Event, Window
from clusterjobs.report.run import LostTime
from clusterjobs.report.steady import Steady
from clusterjobs.report.values import total

_WAITS = 0.2  # of a step: a shorter wait for data is noise of the timers


def lost_in_steps(kept: Kept, steady: Steady) -> dict[LostTime, float]:
    """The time of the windows of one part beyond that of useful steps, by kind."""
    lost: defaultdict[LostTime, float] = defaultdict(float)
    lost["repeated"] += total(kept.repeated)
    if steady.seconds is None:
        return _positive(lost)
    usual = forward_to_backward(steady.usual)
    warm_up = {one.step for one in steady.warm_up}
    for window in kept.kept:
        steps = window.steps or 0
        excess = (window.values.get("seconds", steady.seconds) - steady.seconds) * steps
        waited = min(max(excess, 0.0), data_wait(window, usual) * steps)
        lost["data_wait"] += waited
        kind = _kind(window, window.step in warm_up, kept.part.events)
        lost[kind] += excess - waited
    return _positive(lost)


def _kind(window: Window, is_warm_up: bool, events: Iterable[Event]) -> LostTime:
    """Why a window took longer than usual."""
    if is_warm_up:
        return "warm_up"
    begin = window.step - (window.steps or 0)
    inside = {
        one.kind for one in events if one.step is not None and begin <= one.step < window.step
    }
    if inside & {"saving", "saved"}:
        return "saving"
    return "validation" if "validation" in inside else "slow"


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
    attempt: RecordedAttempt, in_steps: float, is_first: bool
) -> dict[LostTime, float]:
    """What an attempt of known length spent beside its steps, which took `in_steps` seconds."""
    lost: dict[LostTime, float] = {
        "staging": attempt.staging or 0.0,
        "preflight": attempt.preflight or 0.0,
    }
    if attempt.seconds is not None:
        rest = attempt.seconds - in_steps - sum(lost.values())
        kind: LostTime = "starting" if is_first else "restart"
        lost["stalled" if attempt.reason == "stalled" else kind] = rest
    return _positive(lost)


def _positive(lost: Mapping[LostTime, float]) -> dict[LostTime, float]:
    return {kind: seconds for kind, seconds in lost.items() if seconds > 0}


def added(parts: Iterable[Mapping[LostTime, float]]) -> dict[LostTime, float]:
    """The sum of several."""
    everything: defaultdict[LostTime, float] = defaultdict(float)
    for one in parts:
        for kind, seconds in one.items():
            everything[kind] += seconds
    return dict(everything)
