"""A run as data, for `--json`. Names and structure are stable; docs/report.md lists them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, get_args

from clusterjobs.report.records import Quantity, Window
from clusterjobs.report.run import AttemptPart, LostTime, Run
from clusterjobs.report.tables import Table

SERIES: tuple[Quantity, ...] = (
    *("loss", "validation_loss", "learning_rate", "grad_norm", "loss_scale", "seconds"),
    *("samples_per_second", "tokens_per_second", "memory_gib"),
)


def report_data(runs: Sequence[Run], tables: Sequence[Table]) -> dict[str, Any]:
    """All runs, and the tables that compare them."""
    return {
        "runs": [run_data(run) for run in runs],
        "tables": [table._asdict() for table in tables],
    }


def run_data(run: Run) -> dict[str, Any]:
    """All of a run; a number that is unknown is null."""
    efficiency = run.efficiency
    return {
        "name": run.name,
        "job_id": run.job_id or None,
        "point": dict(run.point) or None,
        "framework": run.framework or None,
        "attempts": [_attempt(one) for one in run.attempts],
        "nodes": run.nodes,
        "gpus": run.gpus,
        "steps": run.steps,
        "total_steps": run.total_steps,
        "remaining_seconds": _finite(run.remaining_seconds),
        "samples_per_second": _median(run, "samples_per_second"),
        "tokens_per_second": _median(run, "tokens_per_second"),
        "step_seconds": _median(run, "seconds"),
        "mean_samples_per_second": _finite(run.mean_samples_per_second),
        "spread": {name: asdict(spread) for name, spread in run.rates.items()},
        "steady_from_step": run.steady_from,
        "no_steady_state": run.no_steady_state or None,
        "tflops_per_gpu": {
            "mfu": efficiency and efficiency.tflops_per_gpu_mfu,
            "hfu": efficiency and efficiency.tflops_per_gpu_hfu,
        },
        "mfu": efficiency and efficiency.mfu,
        "hfu": efficiency and efficiency.hfu,
        "peak_tflops": efficiency and efficiency.peak_tflops,
        "flops_formula": efficiency and efficiency.formula,
        "goodput": _finite(run.goodput),
        "paid_seconds": _finite(run.paid_seconds),
        "lost_steps": run.lost_steps,
        "lost_seconds": {kind: run.lost_seconds.get(kind) for kind in get_args(LostTime)},
        "skipped_steps": run.skipped_steps,
        "peak_memory_gib": run.peak_memory_gib,
        "cost": run.cost and asdict(run.cost),
        "derived": dict(run.derived),
        "notes": list(run.notes),
        "advice": list(run.advice),
        "series": {name: series(run.windows, name) for name in SERIES if _has(run, name)},
    }


def series(windows: Iterable[Window], name: Quantity) -> list[list[float | None]]:
    """[step, value] of each window that has the quantity; a NaN is null, as JSON has none."""
    return [[one.step, _finite(one.values[name])] for one in windows if name in one.values]


def _has(run: Run, name: Quantity) -> bool:
    return any(name in one.values for one in run.windows)


def _attempt(one: AttemptPart) -> dict[str, Any]:
    return {**asdict(one), "lost_seconds": dict(one.lost_seconds)}


def _median(run: Run, name: Quantity) -> float | None:
    return run.rates[name].median if name in run.rates else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
