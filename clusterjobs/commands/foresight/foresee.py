"""The foresight of one job: memory, speed, time and cost put together.

Pure: the texts of site.yaml and the measurements are passed in. It must not know how it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.commands.foresight.job import ForeseenJob
from clusterjobs.commands.foresight.measured import Measurement, narrowed_memory, narrowed_speed
from clusterjobs.commands.foresight.prices import price_of
from clusterjobs.foresight.cost import Cost, cost_of
from clusterjobs.foresight.memory import Memory, estimate_memory
from clusterjobs.foresight.parameters import count_parameters
from clusterjobs.foresight.records import Range
from clusterjobs.foresight.saves import GIB, Saves, best_interval, checkpoint_bytes, save_seconds
from clusterjobs.foresight.speed import Speed, estimate_speed
from clusterjobs.foresight.training_time import FAILURES, TrainingTime, training_time


class Foresight(NamedTuple):
    """What is expected of a job. `speed`: None where no number can be given.

    `time`: None without a speed, or if the length of the training is unknown. `cost`, or in
    `no_cost` why there is none. `measured`: the measurement that narrowed the ranges.
    """

    job: ForeseenJob
    parameters: int
    memory: Memory
    speed: Speed | None
    saves: Saves
    between_failures: Range
    time: TrainingTime | None
    cost: Cost | None
    no_cost: str
    measured: Measurement | None


def foresee(
    job: ForeseenJob,
    sites: Sequence[tuple[str, str]],
    measured: Sequence[Measurement] = (),
    with_nearest: bool = True,
) -> Foresight:
    """The foresight, with the nearest published rows if they are wanted.

    Raises InputError for prices in a site.yaml that are wrong.
    """
    model, layout, gpu = job.model, job.layout, job.gpu
    known = next((one for one in measured if one.is_of(job)), None)
    memory = narrowed_memory(estimate_memory(model, layout, gpu), known, job)
    speed = narrowed_speed(
        estimate_speed(model, layout, gpu, job.network, with_nearest), known, job
    )
    parameters = count_parameters(model)
    step = speed.step_seconds if speed else None
    saves = saves_of(job, parameters, step)
    time = cost = None
    price = price_of(job.nodes, sites)
    no_cost = price if isinstance(price, str) else "no cost: the time is unknown"
    if step and job.length:
        steps = job.length.steps_with(layout.global_batch, model.sequence)
        time = training_time(steps, step, layout.gpus, saves, job.time_limit)
        if not isinstance(price, str):
            cost = cost_of(time.seconds, job.nodes.number, price, time.attempts)
    between = FAILURES.mean_seconds(layout.gpus)
    return Foresight(job, parameters, memory, speed, saves, between, time, cost, no_cost, known)


def saves_of(job: ForeseenJob, parameters: int, step: Range | None) -> Saves:
    """The job's checkpoints."""
    size = checkpoint_bytes(parameters, job.layout)
    seconds, note = save_seconds(size, job.layout.nodes, job.network.gbps, job.disk_rate)
    interval = step.times(job.save_steps) if step and job.save_steps else None
    best = best_interval(seconds, FAILURES.mean_seconds(job.layout.gpus))
    return Saves(size / GIB, seconds, job.save_steps, interval, best, note)
