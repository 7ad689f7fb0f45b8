"""Foresight as data, for `--json`. Names and structure are stable across versions."""

from __future__ import annotations

from typing import Any

from clusterjobs.commands.foresight.foresee import Foresight
from clusterjobs.foresight.records import Range
from clusterjobs.foresight.training_time import FAILURES

OFFLOADED = "no time is given where states are offloaded to the host: too little is published"
NO_NETWORK = "the speed of the network between the nodes is not known"


def no_speed(found: Foresight) -> str:
    """Why no time is given."""
    return OFFLOADED if found.job.layout.offload != "none" else NO_NETWORK


def range_data(value: Range | None, digits: int = 5) -> dict[str, float] | None:
    """Rounded to significant digits: a prediction has no more."""
    if value is None:
        return None
    return {name: rounded(number, digits) for name, number in value._asdict().items()}


def rounded(number: float, digits: int = 5) -> float:
    return float(f"{number:.{digits}g}")


def foresight_data(found: Foresight) -> dict[str, Any]:
    """The keys that a script may rely on; `cost` and `total_seconds` are null if unknown."""
    memory, speed = found.memory, found.speed
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
        "limits": [str(one) for one in speed.limits] if speed else [],
        "validated": bool(speed and speed.validated),
        "doubts": list(speed.doubts) if speed else [no_speed(found)],
        "nearest": [str(one) for one in speed.nearest] if speed else [],
        "total_seconds": _time_data(found),
        "cost": _cost_data(found),
        "checkpoint": _checkpoint_data(found),
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


def _checkpoint_data(found: Foresight) -> dict[str, Any]:
    saves = found.saves
    return {
        "gib": rounded(saves.gib),
        "save_seconds": range_data(saves.save_seconds),
        "interval_seconds": range_data(saves.interval_seconds),
        "best_interval_seconds": range_data(saves.best_interval),
        "failure_rate": FAILURES.source,
    }
