"""Compares the windows that a report reads with the training's own record of its steps.

A program prints a speed after step k and before step k + 1, so that its clock says something
between two times of the record. No load of the machine moves it out of these bounds.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Window

LOGS = pathlib.Path(__file__).with_name("report") / "logs"
Step = dict[str, Any]


class Span(NamedTuple):
    """The steps of a window. `rows`: by step, of one start of the ranks; `first` to `last`."""

    rows: dict[int, Step]
    first: int
    last: int

    @property
    def steps(self) -> list[Step]:
        return [self.rows[step] for step in range(self.first, self.last + 1)]

    @property
    def samples(self) -> float:
        return sum(step["samples"] for step in self.steps)


class Kind(NamedTuple):
    """How a program prints: every so many steps; `clock`: what its speed is of, "" if it has none.

    `is_mean`: its loss is the mean of these steps, and not that of the last one.
    """

    framework: str
    every: int = 1
    clock: str = "prints"
    is_mean: bool = False
    has_loss: bool = True


Bounds = Callable[[Span], tuple[float, float]]  # seconds of the window: at least, at most


def recorded_steps(name: str) -> list[Step]:
    """The record beside a log of tests/report/logs."""
    found: list[Step] = json.loads((LOGS / f"{name}.json").read_text(encoding="utf-8"))["steps"]
    return found


def starts_of(steps: Iterable[Step]) -> list[dict[int, Step]]:
    """For each start of the ranks its steps."""
    starts: dict[int, dict[int, Step]] = {}
    for row in steps:
        starts.setdefault(row["start_number"], {})[row["step"]] = row
    return [starts[number] for number in sorted(starts)]


def spans(windows: Iterable[Window], steps: Iterable[Step]) -> Iterator[tuple[Window, Span]]:
    """Each window with the steps since the window before it, or since the start of the ranks.

    Those with a step that not all ranks have finished are left out: one of them was killed.
    """
    steps = list(steps)
    world = max(row["ranks"] for row in steps)
    starts = iter(starts_of(steps))
    rows, last = next(starts), 0
    for window in windows:
        while window.step not in rows or window.step <= last:
            rows, last = next(starts), 0
        first = max(last + 1, min(rows))
        last = window.step
        span = Span(rows, first, last)
        if all(row["ranks"] == world for row in span.steps):
            yield window, span


def between_prints(span: Span) -> tuple[float, float]:
    """A clock that runs from one print to the next."""
    rows, (first, last) = span.rows, (span.first, span.last)
    least = rows[last]["end"] - rows[first]["start"]
    if first - 1 not in rows or last + 1 not in rows:
        return least, math.inf
    return least, rows[last + 1]["start"] - rows[first - 1]["end"]


def engine(span: Span) -> tuple[float, float]:
    """DeepSpeed's timer, which runs inside its engine in the last step, and not in the first two.

    The speed of those is that of the program's own line.
    """
    if span.last <= min(span.rows) + 1:
        return between_prints(span)
    least, most = span.rows[span.last]["engine"]
    return float(least), float(most)


def one_step(span: Span) -> tuple[float, float]:
    """A clock that runs from the start of the last step until it is printed."""
    row, after = span.rows[span.last], span.rows.get(span.last + 1)
    return row["end"] - row["start"], after["start"] - row["start"] if after else math.inf


def wrong_speeds(
    windows: Iterable[Window], steps: Iterable[Step], bounds: Bounds, rounding: float = 0.002
) -> list[str]:
    """Windows whose speed cannot be that of their steps. `rounding`: of printed numbers.

    A rate has one digit behind the point: of a slow step, that is more.
    """
    wrong = []
    for window, span in spans(windows, steps):
        least, most = bounds(span)
        of_last = bounds is not between_prints
        count = 1 if of_last else span.last - span.first + 1
        samples = span.rows[span.last]["samples"] if of_last else span.samples
        slack = max(rounding, 0.05 / (window.values.get("samples_per_second") or 1e9))
        for name, seconds in _times(window, count, samples):
            if not least * (1 - slack) <= seconds <= most * (1 + slack):
                wrong.append(f"step {window.step}: {name} {least:.4f} {seconds:.4f} {most:.4f}")
    return wrong


def _times(window: Window, count: int, samples: float) -> Iterator[tuple[str, float]]:
    """The seconds of the window by each value that tells them."""
    if seconds := window.values.get("seconds"):
        yield "seconds", seconds * count
    if rate := window.values.get("samples_per_second"):
        yield "samples_per_second", samples / rate


def wrong_losses(
    windows: Iterable[Window], steps: Iterable[Step], is_mean: bool = False, digits: float = 1e-3
) -> list[str]:
    """Windows whose loss is not that of their last step, or not the mean of their steps."""
    wrong = []
    for window, span in spans(windows, steps):
        if is_mean:
            total = sum(row["loss"] * row["weight"] for row in span.steps)
            own = total / sum(row["weight"] for row in span.steps)
        else:
            own = span.rows[span.last]["loss"]
        if not math.isclose(window.values.get("loss", math.nan), own, rel_tol=digits):
            wrong.append(f"step {window.step}: loss {window.values.get('loss')}, own {own:.5f}")
    return wrong


CLOCKS: dict[str, Bounds] = {"prints": between_prints, "engine": engine, "one step": one_step}


def check_windows(log: bytes, steps: Iterable[Step], kind: Kind) -> None:
    """What is read of a log is what the program has recorded, window by window."""
    rows = list(steps)
    read = read_log([log])
    windows = [one for one in read.records if isinstance(one, Window)]
    assert read.format == kind.framework
    assert read.dropped == 0
    printed = [row["step"] for row in rows if row["step"] % kind.every == 0]
    assert [one.step for one in windows] == printed
    if kind.has_loss:
        assert wrong_losses(windows, rows, kind.is_mean) == []
    if kind.clock:
        timed = [one for one in windows if {"seconds", "samples_per_second"} & one.values.keys()]
        assert len(timed) >= len(windows) - 1  # fairseq does not time its first step
        assert wrong_speeds(windows, rows, CLOCKS[kind.clock]) == []


def kept_losses(steps: Iterable[Step]) -> dict[int, float]:
    """The loss of each step, of the last time that it was done."""
    return {row["step"]: row["loss"] for row in steps}


def repeated_steps(steps: Iterable[Step]) -> int:
    """How many steps were done that were done again later."""
    done = [row["step"] for row in steps]
    return len(done) - len(set(done))
