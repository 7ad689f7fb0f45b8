"""From the time of a step to the time of a training: steps, start, saves, failures, requeues.

Times in seconds. Knows no spec and no Slurm.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from clusterjobs.foresight.records import Range
from clusterjobs.foresight.saves import Saves

# From the script's start to the first step: environment, imports, NCCL, data index. No published
# row has it.
START_SECONDS = Range(120.0, 300.0, 900.0)
START_NOTE = "a start takes 2 to 15 min"


class Failures(NamedTuple):
    """How often hardware and software fail, in GPU-hours per unexpected stop."""

    gpu_hours: Range
    short: str
    source: str

    def mean_seconds(self, gpus: int) -> Range:
        """Mean time between two failures of a job on so many GPUs."""
        return self.gpu_hours.times(3600.0 / gpus)


FAILURES = Failures(
    Range(25_000.0, 51_000.0, 100_000.0),
    "one failure per 51,000 GPU-hours (Llama 3)",
    "one failure per 51,000 GPU-hours (419 in 54 days on 16,384 H100, arXiv 2407.21783); the range "
    "starts at 25,000 (OPT-175B, 992 A100)",
)


class TrainingTime(NamedTuple):
    """A training from its first start to its last checkpoint; `seconds` is the sum of the parts.

    `attempts`: how many time limits it needs; None without a limit. `starts` are those of all
    attempts; `lost` is what failures repeat, and the starts after them.
    """

    steps: int
    seconds: Range
    starts: Range
    training: Range
    saving: Range
    lost: Range
    attempts: Range | None


def steps_of(
    tokens: float | None, samples: float | None, steps: float | None, batch: int, sequence: int
) -> int:
    """Optimizer steps of a training whose length is given in one of three ways."""
    if steps is not None:
        return max(1, math.ceil(steps))
    if samples is None:
        assert tokens is not None
        samples = tokens / sequence
    return max(1, math.ceil(samples / batch))


def training_time(
    steps: int, step_seconds: Range, gpus: int, saves: Saves | None, time_limit: int | None
) -> TrainingTime:
    """The total time; the high end takes the pessimistic end of every part.

    A failure loses half of the interval between checkpoints, and a start (J. T. Daly 2006, first
    order); an unknown interval is taken as the best. Each time limit costs a start; the job saves
    before it, so no step is lost.
    """
    training = step_seconds.times(steps)
    ends = [_end(end, training, gpus, saves, time_limit) for end in range(3)]
    totals = [sum(parts[:4]) for parts in ends]
    ranges = [Range(*values) for values in zip(*ends, strict=True)]
    attempts = ranges[4] if time_limit else None
    return TrainingTime(steps, Range(*totals), ranges[0], ranges[1], ranges[2], ranges[3], attempts)


def _end(
    end: int, training: Range, gpus: int, saves: Saves | None, time_limit: int | None
) -> tuple[float, float, float, float, float]:
    """One end of all parts: start, training, saving, lost, attempts."""
    start, work = START_SECONDS[end], training[end]
    saving = interval = 0.0
    if saves:
        interval = (saves.interval_seconds or saves.best_interval)[end]
        saving = max(1.0, work / interval) * saves.save_seconds[end]
    between = FAILURES.mean_seconds(gpus)[2 - end]  # the high end fails most often
    busy = work + saving
    failures = busy / between
    lost = failures * (min(interval or work, work) / 2 + start)
    attempts = 1.0
    if time_limit:
        # A limit too short for a start and a step never ends; one that is cut there is a warning.
        usable = max(time_limit - start, time_limit / 10)
        attempts = float(max(1, math.ceil((busy + lost) / usable)))
    return attempts * start, work, saving, lost, attempts
