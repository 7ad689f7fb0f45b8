"""The speed of a layout as ranges, with what limits it and what the estimate rests on."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.foresight.constants import fitted_constants, range_factors
from clusterjobs.foresight.flops import hardware_flops, model_flops
from clusterjobs.foresight.limits import Part, largest_parts
from clusterjobs.foresight.nearest import Nearest, nearest
from clusterjobs.foresight.records import Gpu, Layout, ModelShape, Network, Range
from clusterjobs.foresight.region import region
from clusterjobs.foresight.step import StepTime, step_time


class Speed(NamedTuple):
    """One layout's speed. `limits` are the largest parts of the step, `doubts` why the range is
    wider than that of validated layouts (empty if `validated`)."""

    step_seconds: Range
    tokens_per_second_per_gpu: Range
    tflops_per_gpu: Range
    mfu: Range
    hfu: Range
    parts: StepTime
    limits: tuple[Part, ...]
    validated: bool
    doubts: tuple[str, ...]
    nearest: tuple[Nearest, ...]


def estimate_speed(
    model: ModelShape, layout: Layout, gpu: Gpu, network: Network, with_nearest: bool = True
) -> Speed | None:
    """None where a number would mislead: states on the host, or a network of unknown speed."""
    if layout.offload != "none" or (layout.nodes > 1 and not network.gbps):
        return None
    parts = step_time(model, layout, gpu, network, fitted_constants())
    found = region(model, layout, gpu, network)
    seconds = range_factors(found.trust).times(parts.seconds)
    batch = layout.global_batch
    work = model_flops(model, batch) / layout.gpus
    hardware_work = hardware_flops(model, layout) / layout.gpus
    peak = gpu.peak(layout.precision)
    return Speed(
        step_seconds=seconds,
        tokens_per_second_per_gpu=seconds.inverse(batch * model.sequence / layout.gpus),
        tflops_per_gpu=seconds.inverse(work / 1e12),
        mfu=seconds.inverse(work / peak),
        hfu=seconds.inverse(hardware_work / peak),
        parts=parts,
        limits=largest_parts(parts, layout),
        validated=found.trust == "validated",
        doubts=found.doubts,
        nearest=nearest(model, layout, gpu) if with_nearest else (),
    )
