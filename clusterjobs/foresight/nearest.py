"""The published measurements nearest to a configuration: the reason to trust an estimate.

They are read from a small file made of published.csv, since `plan` must stay fast.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Iterable
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

from clusterjobs.foresight.flops import model_flops
from clusterjobs.foresight.layer_time import layer_weights
from clusterjobs.foresight.records import Gpu, Layout, ModelShape

if TYPE_CHECKING:
    from clusterjobs.foresight.published import Published

DATA_FILE = pathlib.Path(__file__).with_name("nearest.json")

# Added to the distance, which else counts factors: e (2.7) times the parameters is 1.
OTHER_RECOMPUTATION = 1.0
OTHER_ENGINE = 0.5
OTHER_PRECISION = 0.5
MIXTURE_OR_DENSE = 3.0


class Nearest(NamedTuple):
    """A published measurement: where it is from, what ran, and how fast."""

    source: str
    url: str
    configuration: str
    step_seconds: float
    tokens_per_second_per_gpu: float
    mfu: float

    def __str__(self) -> str:
        return f"{self.configuration}: MFU {self.mfu:.0%} ({self.source})"


def nearest(model: ModelShape, layout: Layout, gpu: Gpu, count: int = 3) -> tuple[Nearest, ...]:
    """The nearest rows of the same family of GPUs."""
    here = _coordinates(model, layout)
    kind = _kind(model, layout)
    rows = _rows().get(gpu.family, [])
    ordered = sorted(rows, key=lambda row: _distance(here, kind, row))
    return tuple(Nearest(*row["nearest"]) for row in ordered[:count])


def prepare(rows: Iterable[Published]) -> dict[str, list[dict[str, Any]]]:
    """The content of the file: each configuration once, by family of GPUs."""
    prepared: dict[str, list[dict[str, Any]]] = {}
    seen = set()
    for row in rows:
        if row.use != "time" or not row.step_seconds:
            continue
        at, kind = _coordinates(row.model, row.layout), _kind(row.model, row.layout)
        key = (row.source, *at, *kind)
        if key not in seen:
            seen.add(key)
            entry = {"at": at, "kind": kind, "nearest": list(_of_row(row, row.step_seconds))}
            prepared.setdefault(row.gpu.family, []).append(entry)
    return prepared


@functools.cache
def _rows() -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    return rows


def _coordinates(model: ModelShape, layout: Layout) -> list[float]:
    coordinates = (
        log(model.layers * layer_weights(model)),
        log(model.sequence),
        log(layout.gpus) / 2,
        log(layout.tensor * layout.pipeline),
    )
    return [round(value, 3) for value in coordinates]


def _kind(model: ModelShape, layout: Layout) -> list[str]:
    mixture = "experts" if model.experts else "dense"
    return [layout.recompute, layout.engine, layout.precision, mixture]


def _distance(here: list[float], kind: list[str], row: dict[str, Any]) -> float:
    weights = (OTHER_RECOMPUTATION, OTHER_ENGINE, OTHER_PRECISION, MIXTURE_OR_DENSE)
    factors = sum(abs(a - b) for a, b in zip(here, row["at"], strict=True))
    kinds = zip(weights, kind, row["kind"], strict=True)
    return float(factors + sum(weight for weight, a, b in kinds if a != b))


def _of_row(row: Published, seconds: float) -> Nearest:
    model, layout, gpu = row.model, row.layout, row.gpu
    batch = layout.global_batch
    billions = model.layers * layer_weights(model) / 1e9
    name = row.name or f"{billions:.3g}B in the layers"
    rate = model_flops(model, batch) / seconds / layout.gpus
    return Nearest(
        source=row.source,
        url=row.url,
        configuration=(
            f"{name}, {layout.gpus} × {gpu.name}, tensor {layout.tensor}, pipeline "
            f"{layout.pipeline}, sequence {model.sequence}"
        ),
        step_seconds=round(seconds, 4),
        tokens_per_second_per_gpu=round(batch * model.sequence / seconds / layout.gpus, 1),
        mfu=round(rate / gpu.peak(layout.precision), 4),
    )
