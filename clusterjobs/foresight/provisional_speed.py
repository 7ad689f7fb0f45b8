"""Stands for speed.py until it is there."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.foresight.constants import fitted_constants
from clusterjobs.foresight.records import Gpu, Layout, ModelShape, Network, Range
from clusterjobs.foresight.step import step_time


class Part(NamedTuple):
    name: str
    seconds: float


class Speed(NamedTuple):
    step_seconds: Range
    tokens_per_second_per_gpu: Range
    tflops_per_gpu: Range
    mfu: Range
    parts: tuple[Part, ...]
    limits: tuple[str, ...]
    validated: bool
    reasons: tuple[str, ...]
    nearest: tuple[str, ...]


def estimate_speed(model: ModelShape, layout: Layout, gpu: Gpu, network: Network) -> Speed:
    time = step_time(model, layout, gpu, network, fitted_constants())
    seconds = Range(0.85 * time.seconds, time.seconds, 1.2 * time.seconds)
    tokens = layout.global_batch * model.sequence
    flops = 72 * tokens * model.layers * model.hidden**2 * (
        1 + model.sequence / 6 / model.hidden + model.vocab / 16 / model.layers / model.hidden
    )
    tflops = seconds.inverse(flops / 1e12 / layout.gpus)
    parts = sorted((Part(n, s) for n, s in time._asdict().items()), key=lambda one: -one.seconds)
    return Speed(
        seconds,
        seconds.inverse(tokens / layout.gpus),
        tflops,
        tflops.times(1e12 / gpu.peak_16bit),
        tuple(parts),
        tuple(f"{one.name} {one.seconds / time.seconds:.0%}" for one in parts[:3]),
        True,
        (),
        (),
    )
