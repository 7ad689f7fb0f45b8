"""Completes windows: what the log does not print is calculated from what it prints.

Batch and time of a step are trusted more than a printed rate, which may be of one rank, of one
batch, or in another unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.report.job import Job
from clusterjobs.report.records import Quantity, Window

_OF_THE_TRAINING = frozenset(
    ("loss", "validation_loss", "grad_norm", "learning_rate", "loss_scale")
)
_APART = 0.02  # of a printed and a calculated rate
_LEAST, _MOST = 1e-12, 1e18  # of a time, rate or size; others are damaged lines
_INFINITE = 1e100  # far beyond what a training computes with; sums of such values overflow
_OF_THE_JOB: dict[Quantity, Quantity] = {
    "tokens_per_second_per_gpu": "tokens_per_second",
    "samples_per_second_per_gpu": "samples_per_second",
}


class Completed(NamedTuple):
    """`derived`: quantity -> how it was calculated. `notes`: sentences for the reader.

    `impossible`: how many values were left out.
    """

    windows: tuple[Window, ...]
    derived: dict[Quantity, str]
    notes: tuple[str, ...]
    impossible: int


def complete(windows: Sequence[Window], job: Job) -> Completed:
    """The windows of one attempt with time of a step, samples/s and tokens/s where possible."""
    derived: dict[Quantity, str] = {}
    done: list[Window] = []
    apart = impossible = 0
    before: Window | None = None
    for window in windows:
        values = possible(window.values)
        impossible += len(window.values) - len(values)
        batch = values.get("batch") or job.batch
        sequence = values.get("sequence") or job.sequence
        if job.gpus:
            for name in _OF_THE_JOB.keys() & values.keys():
                values.setdefault(_OF_THE_JOB[name], values[name] * job.gpus)
        _add_seconds(values, derived, window, before, batch, sequence)
        seconds, printed = values.get("seconds"), values.get("samples_per_second")
        if seconds and batch:
            rate = batch / seconds
            apart += bool(printed and abs(printed - rate) > _APART * rate)
            if not printed or abs(printed - rate) > _APART * rate:
                values["samples_per_second"] = rate
                derived["samples_per_second"] = "batch / time of a step"
        rate = values.get("samples_per_second", 0.0)
        if rate and sequence and "tokens_per_second" not in values:
            values["tokens_per_second"] = rate * sequence
            derived["tokens_per_second"] = "samples/s x sequence"
        before = window.with_values(values)
        done.append(before)
    notes = []
    if apart:
        notes.append(
            f"The printed samples/s differ from batch / time of a step by more than "
            f"{_APART:.0%} in {apart} of {len(done)} lines; batch / time is used."
        )
    return Completed(tuple(done), derived, tuple(notes), impossible)


def possible(values: Mapping[Quantity, float]) -> dict[Quantity, float]:
    """Values without what cannot be measured.

    A loss or a gradient may be NaN: that is worth knowing.
    """
    possible = dict(values)
    odd = [name for name, one in values.items() if one != 0 and not _LEAST <= one <= _MOST]
    for name in odd:  # nearly never
        if name not in _OF_THE_TRAINING:
            del possible[name]
        elif abs(values[name]) > _INFINITE:
            possible[name] = math.copysign(math.inf, values[name])
    return possible


def _add_seconds(
    values: dict[Quantity, float],
    derived: dict[Quantity, str],
    window: Window,
    before: Window | None,
    batch: float | None,
    sequence: float | None,
) -> None:
    """The time of a step, from the most certain of what the log has."""
    if values.get("seconds"):
        return
    if batch and values.get("samples_per_second"):
        values["seconds"] = batch / values["samples_per_second"]
        derived["seconds"] = "batch / samples per second"
    elif batch and sequence and values.get("tokens_per_second"):
        values["seconds"] = batch * sequence / values["tokens_per_second"]
        derived["seconds"] = "tokens of a step / tokens per second"
    elif before and window.steps and {"time"} <= values.keys() & before.values.keys():
        elapsed = values["time"] - before.values["time"]
        if elapsed > 0:
            values["seconds"] = elapsed / window.steps
            derived["seconds"] = "difference of the times that the log prints"


def total(windows: Iterable[Window]) -> float:
    """The time of the windows in seconds; one without a time counts as none."""
    return sum(one.values.get("seconds", 0.0) * (one.steps or 0) for one in windows)
