"""Runs for other tools: JSON data, CSV, and TensorBoard's event files."""

import csv
import io
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, get_args

from clusterjobs.errors import one_problem
from clusterjobs.extras import how_to_install
from clusterjobs.report.logs.records import Quantity, Window
from clusterjobs.report.run import LostTime, Run
from clusterjobs.report.tables import Table, visible

SERIES: tuple[Quantity, ...] = (
    *("loss", "validation_loss", "learning_rate", "grad_norm", "loss_scale", "seconds"),
    *("samples_per_second", "tokens_per_second", "memory_gib", "gpu_percent"),
)


def report_data(runs: Sequence[Run], tables: Sequence[Table]) -> dict[str, Any]:
    return {
        "runs": [run_data(run) for run in runs],
        "tables": [table._asdict() for table in tables],
    }


def run_data(run: Run) -> dict[str, Any]:
    """A run as JSON data. Names and structure are stable; docs/report.md lists them.

    A number that is unknown is null.
    """
    efficiency = run.efficiency
    return {
        "name": run.name,
        "job_id": run.job_id or None,
        "point": dict(run.point) or None,
        "framework": run.framework or None,
        "attempts": [
            {**asdict(one), "lost_seconds": dict(one.lost_seconds)} for one in run.attempts
        ],
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
        "series": {
            name: series(run.windows, name)
            for name in SERIES
            if any(name in one.values for one in run.windows)
        },
    }


def series(windows: Iterable[Window], name: Quantity) -> list[list[float | None]]:
    """[step, value] of each window that has the quantity; a NaN is null, as JSON has none."""
    return [[one.step, _finite(one.values[name])] for one in windows if name in one.values]


def _median(run: Run, name: Quantity) -> float | None:
    return run.rates[name].median if name in run.rates else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


_FORMULA = ("=", "+", "-", "@")  # a spreadsheet would execute such a text


def csv_text(runs: Sequence[Run]) -> str:
    """The windows of runs as CSV: one row for each.

    The columns run, job_id, step, steps, then quantities; unknown values are empty.
    """
    windows = [(run, window) for run in runs for window in run.windows]
    printed = {name for _, window in windows for name in window.values}
    names = [name for name in get_args(Quantity) if name in printed]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["run", "job_id", "step", "steps", *names])
    for run, window in windows:
        known = window.values
        values = [f"{known[name]:.10g}" if name in known else "" for name in names]
        writer.writerow([_text(run.name), _text(run.job_id), window.step, window.steps, *values])
    return file.getvalue()


def _text(value: str) -> str:
    value = visible(value)
    return f"'{value}" if value.startswith(_FORMULA) else value


_EVENTS = "events.out.tfevents.0.clusterjobs"  # TensorBoard looks for `tfevents` in the name


def write_tensorboard(folder: pathlib.Path, runs: Sequence[Run]) -> None:
    """A folder below `folder` for each run. Raises InputError without the package tensorboard."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError:
        raise one_problem(
            "--tensorboard needs the package tensorboard",
            hint=f"{how_to_install('tensorboard')}, or use --csv",
        ) from None
    for name, run in _named(runs):
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
            with (folder / name / _EVENTS).open("wb") as file:
                writer = RecordWriter(file)
                writer.write(Event(wall_time=0, file_version="brain.Event:2").SerializeToString())
                for window in run.windows:
                    event = Event(step=window.step, wall_time=window.values.get("time", 0.0))
                    for tag in SERIES:
                        if tag in window.values:
                            event.summary.value.add(tag=tag, simple_value=window.values[tag])
                    writer.write(event.SerializeToString())
        except OSError as error:
            raise one_problem(f"cannot write into {folder}: {error.strerror}") from None


def _named(runs: Sequence[Run]) -> Iterator[tuple[str, Run]]:
    """The folder of each run: its name without what a path could misread, and its job id."""
    used: set[str] = set()
    for number, run in enumerate(runs, 1):
        safe = re.sub(r"[^\w.=+-]+", "-", run.name).strip(".-")[:150]
        name = "-".join(filter(None, (safe or "run", run.job_id)))
        name = f"{name}-{number}" if name in used or not safe else name
        used.add(name)
        yield name, run
