"""Logs made by hand for tests of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusterjobs.report.logs.bounds import Bounds
from clusterjobs.report.logs.records import Event, Log, Quantity, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, LostTime, RecordedAttempt, Run

UNPAID: LostTime = "queue"


def window(step: int, seconds: float = 1.0, steps: int | None = None, **values: float) -> Window:
    named: dict[Quantity, float] = {"seconds": seconds, **values}  # type: ignore[typeddict-item,dict-item]
    return Window(step, named, steps)


def windows(steps: Iterable[int], seconds: float = 1.0) -> list[Window]:
    return [window(step, seconds) for step in steps]


def attempt(number: int) -> Event:
    return Event("attempt", value=number)


def log_of(records: Iterable[Window | Event], span: float | None = None) -> Log:
    """As the reader of logs makes it: without values outside their bounds."""
    bounds = Bounds()
    kept = tuple(
        bounds.checked(one, line) if isinstance(one, Window) else one
        for line, one in enumerate(records, 1)
    )
    return Log("made", kept, odd=bounds.found(), span=span)


def run_of(records: Sequence[Window | Event], job: Job | None = None) -> Run:
    return make_run(log_of(records), job or Job())


def lengths(*seconds: float | None) -> tuple[RecordedAttempt, ...]:
    """Attempts that lasted so long."""
    return tuple(
        RecordedAttempt(number, "failure", length) for number, length in enumerate(seconds, 1)
    )


def all_seconds(run: Run) -> float:
    """Useful and lost time: as much as was paid for."""
    assert run.goodput is not None
    assert run.paid_seconds is not None
    lost = sum(seconds for kind, seconds in run.lost_seconds.items() if kind != UNPAID)
    return run.goodput * run.paid_seconds + lost


def lost_in(run: Run) -> dict[LostTime, float]:
    """The parts that took time."""
    return {kind: seconds for kind, seconds in run.lost_seconds.items() if seconds}
