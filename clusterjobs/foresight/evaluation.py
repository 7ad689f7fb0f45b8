"""How well the step time is predicted: errors, ranges and ties over the published rows."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from clusterjobs.foresight.constants import Constants
from clusterjobs.foresight.published import Published, published
from clusterjobs.foresight.records import Layout
from clusterjobs.foresight.step import step_time
from clusterjobs.foresight.ties import tied

# Families of too few rows to be fitted alone.
FAMILY_COPIES = {"flash.V100": "flash.A100", "flash.H100-500W": "flash.H100"}


class Error(NamedTuple):
    """A row, and the logarithm of its predicted by its measured seconds."""

    row: Published
    log_ratio: float


def dense_rows(rows: Iterable[Published] | None = None) -> list[Published]:
    """What is fitted and judged: dense models on GPUs that several publications measured."""
    return [row for row in _timed_dense(rows) if row.gpu.family not in ("", "Blackwell")]


def blackwell_rows() -> list[Published]:
    """Without nvfp4, for which the model has no constant of its own."""
    return [
        row
        for row in _timed_dense(None)
        if row.gpu.family == "Blackwell" and row.layout.precision != "nvfp4"
    ]


def _timed_dense(rows: Iterable[Published] | None) -> Iterable[Published]:
    return (
        row
        for row in (published() if rows is None else rows)
        if row.use == "time" and row.step_seconds and not row.model.experts
    )


def with_values(base: Constants, values: dict[str, float]) -> Constants:
    """The constants with fitted values; `products.A100` is a value of a dictionary."""
    copies = {copy: values[name] for copy, name in FAMILY_COPIES.items() if name in values}
    changed: dict[str, Any] = {}
    for name, value in {**values, **copies}.items():
        field, _, family = name.partition(".")
        if family:
            changed.setdefault(field, dict(getattr(base, field)))[family] = value
        else:
            changed[field] = value
    return base._replace(**changed)


def error(row: Published, constants: Constants) -> Error:
    assert row.step_seconds
    seconds = step_time(row.model, row.layout, row.gpu, row.network, constants).seconds
    return Error(row, math.log(seconds / row.step_seconds))


def quantile(errors: Sequence[Error], share: float) -> float:
    """Of the absolute errors: predicted by measured, less one."""
    ordered = sorted(abs(math.expm1(e.log_ratio)) for e in errors)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def bias(errors: Sequence[Error]) -> float:
    return math.expm1(statistics.median(e.log_ratio for e in errors))


def inside(errors: Sequence[Error], low: float, high: float) -> float:
    """The share of rows that were measured between low and high times the prediction."""
    return statistics.mean(low <= math.exp(-e.log_ratio) <= high for e in errors)


def best_is_tied(errors: Sequence[Error]) -> list[bool]:
    """For each job of which several layouts were measured: is the measured best in the tie?"""
    jobs: dict[object, dict[Layout, list[Error]]] = defaultdict(lambda: defaultdict(list))
    for e in errors:
        row = e.row
        batch, precision = row.layout.global_batch, row.layout.precision
        job = (row.source, row.model, row.gpu, row.layout.gpus, batch, precision)
        jobs[job][row.layout].append(e)
    return [_measured_best_is_tied(layouts) for layouts in jobs.values() if len(layouts) > 1]


def _measured_best_is_tied(layouts: dict[Layout, list[Error]]) -> bool:
    measured, predicted = [], []
    for errors in layouts.values():
        seconds = statistics.median(e.row.step_seconds or 0.0 for e in errors)
        measured.append(seconds)
        predicted.append(seconds * math.exp(statistics.median(e.log_ratio for e in errors)))
    return tied(predicted)[measured.index(min(measured))]
