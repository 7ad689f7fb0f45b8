"""The foresight of one job: memory, speed, time and cost put together.

Pure: the texts of site.yaml and the measurements are passed in.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from clusterjobs.foresight.formulas.memory import Memory, estimate_memory
from clusterjobs.foresight.formulas.memory_parts import adapter_parameters, count_parameters
from clusterjobs.foresight.formulas.speed import Speed, estimate_speed
from clusterjobs.foresight.formulas.training_time import (
    FAILURES,
    GIB,
    Cost,
    Saves,
    TrainingTime,
    best_interval,
    checkpoint_bytes,
    cost_of,
    save_seconds,
    training_time,
)
from clusterjobs.foresight.measured import Measurement, narrowed_memory, narrowed_speed
from clusterjobs.models.records import Range
from clusterjobs.runs.training import Training
from clusterjobs.sites.prices import price_of


class Foresight(NamedTuple):
    """What is expected of a job. `speed`: None where no number can be given.

    `time`: None without a speed, or if the length of the training is unknown. `cost`, or in
    `no_cost` why there is none. `measured`: the measurement that narrowed the ranges.
    """

    job: Training
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
    job: Training,
    sites: Sequence[tuple[str, str]],
    measured: Sequence[Measurement] = (),
    with_nearest: bool = True,
) -> Foresight:
    """The foresight. `with_nearest`: with the nearest published rows.

    Raises InputError for prices in a site.yaml that are wrong.
    """
    model, layout, gpu = job.model, job.layout, job.gpu
    known = next((one for one in measured if one.is_of(job)), None)
    memory = narrowed_memory(estimate_memory(model, layout, gpu), known, job)
    speed = narrowed_speed(
        estimate_speed(model, layout, gpu, job.network, with_nearest), known, job
    )
    if layout.precision == "fp32" and known is None:
        speed = None
    parameters = count_parameters(model)
    step = speed.step_seconds if speed else None
    trained = parameters
    if layout.adapter_rank:
        trained = round(adapter_parameters(model, layout._replace(tensor=1, pipeline=1), 0))
    saves = saves_of(job, trained, step)
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


def saves_of(job: Training, parameters: int, step: Range | None) -> Saves:
    size = checkpoint_bytes(parameters, job.layout)
    seconds, note = save_seconds(size, job.layout.nodes, job.network.gbps, job.disk_rate)
    interval = step.times(job.save_steps) if step and job.save_steps else None
    best = best_interval(seconds, FAILURES.mean_seconds(job.layout.gpus))
    return Saves(size / GIB, seconds, job.save_steps, interval, best, note)


OFFLOADED = "no time is given where states are offloaded to the host: too little is published"
IN_FP32 = (
    "no time is given for a training in fp32: nobody published one, and the program decides "
    "whether it uses TF32"
)
NO_NETWORK = (
    "the speed of the network between the nodes is not known (network_gbps of the node type in the "
    "cluster's description)"
)


def no_speed(found: Foresight) -> str:
    """Why there is no speed."""
    if found.job.layout.offload != "none":
        return OFFLOADED
    return IN_FP32 if found.job.layout.precision == "fp32" else NO_NETWORK


def range_data(value: Range | None, digits: int = 5) -> dict[str, float] | None:
    """Rounded to significant digits: a prediction has no more."""
    if value is None:
        return None
    return {name: rounded(number, digits) for name, number in value._asdict().items()}


def rounded(number: float, digits: int = 5) -> float:
    return float(f"{number:.{digits}g}")


def foresight_data(found: Foresight) -> dict[str, Any]:
    """Foresight as JSON data. Names and structure are stable across versions.

    `cost` and `total_seconds` are null if unknown.
    """
    memory, speed = found.memory, found.speed
    saves = found.saves
    return {
        "parameters": found.parameters,
        "memory_gib": {
            **(range_data(memory.gib) or {}),
            "capacity": rounded(memory.capacity),
            "parts": {name: rounded(gib) for name, gib in memory.parts.items()},
        },
        "verdict": memory.verdict,
        "margin": rounded(memory.margin),
        "remedies": list(memory.remedies) if memory.verdict != "fits" else [],
        "step_seconds": range_data(speed and speed.step_seconds),
        "tokens_per_second_per_gpu": range_data(speed and speed.tokens_per_second_per_gpu),
        "tflops_per_gpu": range_data(speed and speed.tflops_per_gpu),
        "mfu": range_data(speed and speed.mfu),
        "mfu_counts_causal_half": bool(speed and speed.counts_causal_half),
        "limits": [str(one) for one in speed.limits] if speed else [],
        "validated": bool(speed and speed.validated and not found.job.assumed),
        "assumed": list(found.job.assumed),
        "doubts": list(speed.doubts) if speed else [no_speed(found)],
        "nearest": [str(one) for one in speed.nearest] if speed else [],
        "total_seconds": _time_data(found),
        "cost": _cost_data(found),
        "checkpoint": {
            "gib": rounded(saves.gib),
            "save_seconds": range_data(saves.save_seconds),
            "interval_seconds": range_data(saves.interval_seconds),
            "best_interval_seconds": range_data(saves.best_interval),
            "failure_rate": FAILURES.source,
        },
        "measured": found.measured and found.measured.shown(),
    }


def _time_data(found: Foresight) -> dict[str, Any] | None:
    time = found.time
    if time is None:
        return None
    requeues = time.attempts and Range(*(one - 1 for one in time.attempts))
    return {
        **(range_data(time.seconds) or {}),
        "steps": time.steps,
        "requeues": range_data(requeues),
        "lost_to_failures": range_data(time.lost),
    }


def _cost_data(found: Foresight) -> dict[str, Any] | None:
    if found.cost is None:
        return None
    price = found.cost.price
    return {
        **(range_data(found.cost.usd) or {}),
        "currency": "USD",
        "node_hours": range_data(found.cost.node_hours),
        "price": price._asdict(),
    }
