"""Points of a sweep: how each ended, the best one, and those that differ in their seed alone."""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clusterjobs.report.logs.records import Quantity, Window
from clusterjobs.report.run import Run
from clusterjobs.report.tables import loss


def last_value(run: Run, quantity: Quantity) -> tuple[int, float] | None:
    """The newest value of the log, with its step."""
    for window in reversed(run.windows):
        if quantity in window.values:
            return window.step, window.values[quantity]
    return None


class Metric(NamedTuple):
    """What the points are compared by: the last loss, by run; None where there is none.

    `complete`: the runs that are compared: those that are complete, or all if none is.
    """

    name: str
    values: tuple[float | None, ...]
    complete: tuple[bool, ...]

    def known(self, places: Iterable[int]) -> list[float]:
        """The values of those runs that are compared."""
        return [
            value
            for place in places
            if self.complete[place] and (value := self.values[place]) is not None
        ]

    @property
    def best(self) -> int | None:
        """The run with the smallest value."""
        known = [
            (value, place)
            for place, value in enumerate(self.values)
            if value is not None and self.complete[place]
        ]
        return min(known)[1] if known else None


def metric_of(runs: Sequence[Run]) -> Metric:
    """The validation loss if the logs have it, else the loss; the last one of each run."""
    names: tuple[Quantity, ...] = ("validation_loss", "loss")
    name = next((one for one in names if any(last_value(run, one) for run in runs)), names[-1])
    last = [last_value(run, name) for run in runs]
    values = tuple(one[1] if one and math.isfinite(one[1]) else None for one in last)
    states = [state_of(run) in ("completed", "") for run in runs]
    return Metric(name.replace("_", " "), values, tuple(one or not any(states) for one in states))


def state_of(run: Run) -> str:
    """How the last attempt ended; of a job whose end nobody has recorded yet, `running`."""
    if not run.attempts or not run.job_id:
        return ""
    last = run.attempts[-1]
    return last.reason.replace("_", " ") or ("running" if last.seconds is None else "ended")


def best_point(runs: Sequence[Run]) -> str:
    """One sentence, or two if points differ in their seed alone: the best of many is luck.

    "" if the runs are not points, or none has a loss.
    """
    metric = metric_of(runs)
    best = metric.best
    if best is None or len(runs) < 2 or not any(run.point for run in runs):
        return ""
    value = loss(metric.values[best] or 0.0)
    text = f"Best: {runs[best].name}, {metric.name} {value}"
    steps = {run.steps for run, counts in zip(runs, metric.complete, strict=True) if counts}
    text += " (the points have different numbers of steps)." if len(steps) > 1 else "."
    means = [
        (statistics.fmean(known), name_of(group), len(known))
        for group, places in groups_of(runs).items()
        if len(known := metric.known(places)) > 1
    ]
    if not means:
        return text
    mean, name, seeds = min(means)
    return f"{text} Best mean over seeds: {name}, {metric.name} {loss(mean)} ({seeds} seeds)."


# Points that differ only in their seed are one group.


def group_of(run: Run) -> tuple[tuple[str, str], ...]:
    """The keys and values of a point without its seed."""
    return tuple(one for one in run.point.items() if not _is_seed(one[0]))


def _is_seed(key: str) -> bool:
    return key.rpartition(".")[2].lower().replace("-", "_").endswith("seed")


def groups_of(runs: Sequence[Run]) -> dict[tuple[tuple[str, str], ...], list[int]]:
    """The runs of each group; empty if no group has several."""
    found: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for place, run in enumerate(runs):
        if run.point and len(group_of(run)) < len(run.point):
            found.setdefault(group_of(run), []).append(place)
    return found if any(len(one) > 1 for one in found.values()) else {}


def name_of(group: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in group) or "all seeds"


def mean_windows(windows: Sequence[Sequence[Window]]) -> list[Window]:
    """Windows of several runs step by step: means, with the lowest and the highest.

    A step counts that all of the runs have which are that long.
    """
    by_step: dict[int, list[Window]] = {}
    for window in itertools.chain.from_iterable(windows):
        by_step.setdefault(window.step, []).append(window)
    last = [one[-1].step for one in windows if one]
    found = []
    for step, own in sorted(by_step.items()):
        if len(own) < sum(step <= end for end in last):
            continue
        names = set.intersection(*(set(one.values) for one in own))
        columns = {name: [one.values[name] for one in own] for name in names}
        found.append(
            Window(
                step,
                {name: statistics.fmean(column) for name, column in columns.items()},
                own[0].steps,
                None,
                {name: min(column) for name, column in columns.items()},
                {name: max(column) for name, column in columns.items()},
                0,  # it stands for runs, and not for lines of one
            )
        )
    return found
