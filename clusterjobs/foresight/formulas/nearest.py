"""The published measurements nearest to a configuration: the reason to trust an estimate.

They are read from a small file that benchmarks/foresight_fit.py makes of benchmarks/published.csv.
"""

from __future__ import annotations

import functools
import json
import pathlib
from math import log
from typing import Any, NamedTuple

from clusterjobs.models.records import Gpu, Layout, ModelShape, layer_weights

NEAREST_FILE = pathlib.Path(__file__).with_name("nearest.json")

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
    here = coordinates(model, layout)
    kind = kind_of(model, layout)
    rows = _rows().get(gpu.family, [])
    ordered = sorted(rows, key=lambda row: _distance(here, kind, row))
    return tuple(Nearest(*row["nearest"]) for row in ordered[:count])


@functools.cache
def _rows() -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = json.loads(NEAREST_FILE.read_text(encoding="utf-8"))
    return rows


def coordinates(model: ModelShape, layout: Layout) -> list[float]:
    coordinates = (
        log(model.layers * layer_weights(model)),
        log(model.sequence),
        log(layout.gpus) / 2,
        log(layout.tensor * layout.pipeline),
    )
    return [round(value, 3) for value in coordinates]


def kind_of(model: ModelShape, layout: Layout) -> list[str]:
    mixture = "experts" if model.experts else "dense"
    return [layout.recompute, layout.engine, layout.precision, mixture]


def _distance(here: list[float], kind: list[str], row: dict[str, Any]) -> float:
    weights = (OTHER_RECOMPUTATION, OTHER_ENGINE, OTHER_PRECISION, MIXTURE_OR_DENSE)
    factors = sum(abs(a - b) for a, b in zip(here, row["at"], strict=True))
    kinds = zip(weights, kind, row["kind"], strict=True)
    return float(factors + sum(weight for weight, a, b in kinds if a != b))
