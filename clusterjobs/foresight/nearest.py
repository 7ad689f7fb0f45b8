"""The published measurements nearest to a configuration: the reason to trust an estimate."""

from __future__ import annotations

import functools
from math import log
from typing import NamedTuple

from clusterjobs.foresight.flops import model_flops
from clusterjobs.foresight.layer_time import layer_weights
from clusterjobs.foresight.published import Published, timed
from clusterjobs.foresight.records import Gpu, Layout, ModelShape

# Added to the distance, which else counts factors: e (2.7) times the parameters is 1.
OTHER_RECOMPUTATION = 1.0
OTHER_ENGINE = 0.5
OTHER_PRECISION = 0.5
MIXTURE_OR_DENSE = 3.0


class Nearest(NamedTuple):
    """A published row and what it measured."""

    row: Published
    step_seconds: float
    tokens_per_second_per_gpu: float
    mfu: float

    def __str__(self) -> str:
        model, layout, gpu = self.row.model, self.row.layout, self.row.gpu
        billions = model.layers * layer_weights(model) / 1e9
        name = self.row.name or f"{billions:.3g}B in the layers"
        return (
            f"{name}, {layout.gpus} × {gpu.name}, tensor {layout.tensor}, pipeline "
            f"{layout.pipeline}, sequence {model.sequence}: MFU {self.mfu:.0%} ({self.row.source})"
        )


def nearest(model: ModelShape, layout: Layout, gpu: Gpu, count: int = 3) -> tuple[Nearest, ...]:
    """The nearest rows of the same family of GPUs, one of each configuration."""
    here = _coordinates(model, layout)
    found: dict[tuple[object, ...], tuple[float, Published]] = {}
    for row, there in _rows_of(gpu.family):
        distance = sum(abs(a - b) for a, b in zip(here, there, strict=True))
        distance += _differences(model, layout, row)
        key = (row.source, there)
        if key not in found or distance < found[key][0]:
            found[key] = (distance, row)
    ordered = sorted(found.values(), key=lambda item: item[0])
    return tuple(_nearest(row) for _, row in ordered[:count])


@functools.cache
def _rows_of(family: str) -> tuple[tuple[Published, tuple[float, ...]], ...]:
    return tuple((row, _coordinates(row.model, row.layout)) for row in timed(family))


def _coordinates(model: ModelShape, layout: Layout) -> tuple[float, ...]:
    return (
        log(model.layers * layer_weights(model)),
        log(model.sequence),
        log(layout.gpus) / 2,
        log(layout.tensor * layout.pipeline),
    )


def _differences(model: ModelShape, layout: Layout, row: Published) -> float:
    other = row.layout
    return (
        OTHER_RECOMPUTATION * (layout.recompute != other.recompute)
        + OTHER_ENGINE * (layout.engine != other.engine)
        + OTHER_PRECISION * (layout.precision != other.precision)
        + MIXTURE_OR_DENSE * ((model.experts is None) != (row.model.experts is None))
    )


def _nearest(row: Published) -> Nearest:
    assert row.step_seconds
    batch, gpus = row.layout.global_batch, row.layout.gpus
    rate = model_flops(row.model, batch) / row.step_seconds / gpus
    return Nearest(
        row=row,
        step_seconds=row.step_seconds,
        tokens_per_second_per_gpu=batch * row.model.sequence / row.step_seconds / gpus,
        mfu=rate / row.gpu.peak(row.layout.precision),
    )
