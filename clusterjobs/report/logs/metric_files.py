"""Metrics that libraries write into files of their own: exact steps, where a log has a bar at best.

`metrics.csv` of Lightning's CSVLogger, and `trainer_state.json` of transformers' Trainer.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping

from clusterjobs.report.logs.bounds import MOST_STEPS, Bounds
from clusterjobs.report.logs.records import Event, Log, Quantity, Window

# Lightning's names, with every separator as _: users choose it.
_COLUMNS: dict[str, tuple[Quantity, float]] = {
    "loss": ("loss", 1.0),
    "train_loss": ("loss", 1.0),
    "train_loss_step": ("loss", 1.0),
    "loss_step": ("loss", 1.0),
    "val_loss": ("validation_loss", 1.0),
    "valid_loss": ("validation_loss", 1.0),
    "grad_norm": ("grad_norm", 1.0),
    "train_samples_per_sec": ("samples_per_second", 1.0),  # ThroughputMonitor, of all ranks
    "train_device_samples_per_sec": ("samples_per_second_per_gpu", 1.0),
    "train_device_flops_per_sec": ("printed_tflops_per_gpu", 1e-12),
    "train_device_mfu": ("printed_mfu", 1.0),
}
_HISTORY: dict[str, Quantity] = {
    "loss": "loss",
    "eval_loss": "validation_loss",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
}


def read_metrics(text: str) -> Log | None:
    """The log that such a file stands for; None if it is neither of them."""
    if text.lstrip().startswith("{"):
        return _trainer_state(text)
    head = text.partition("\n")[0].strip().split(",")
    return _csv_logger(text) if {"epoch", "step"} <= set(head) else None


def _csv_logger(text: str) -> Log:
    """Lightning counts steps from 0."""
    steps: dict[int, dict[Quantity, float]] = {}
    lines = dropped = 0
    for row in _rows(text):
        lines += 1
        step = _step(row.get("step"))
        if step is None:
            dropped += 1
            continue
        values = steps.setdefault(step + 1, {})
        for name, cell in row.items():
            if (known := _known(name)) and (value := _number(cell)) is not None:
                values[known[0]] = value * known[1]
    return _log("lightning", steps, lines, len(text), dropped)


def _rows(text: str) -> Iterator[Mapping[object, object]]:
    """The rows, up to one that is damaged: csv takes no cell of more than 128 KiB."""
    with contextlib.suppress(csv.Error):
        yield from csv.DictReader(io.StringIO(text))


def _known(column: object) -> tuple[Quantity, float] | None:
    """What a column of CSVLogger is; extra cells of a damaged row have no column."""
    if not isinstance(column, str):
        return None
    if column.startswith("lr-"):
        return "learning_rate", 1.0
    return _COLUMNS.get(re.sub(r"[^a-z0-9]+", "_", column.lower()))


def _trainer_state(text: str) -> Log | None:
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        return None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        return None
    steps: dict[int, dict[Quantity, float]] = {}
    entries = [one for one in history if isinstance(one, dict) and _step(one.get("step"))]
    for entry in entries:
        values = steps.setdefault(_step(entry["step"]) or 0, {})
        for name, quantity in _HISTORY.items():
            if (value := _number(entry.get(name))) is not None:
                values[quantity] = value
    dropped = len(history) - len(entries)
    return _log("huggingface", steps, len(history), len(text), dropped)


def _step(cell: object) -> int | None:
    """A whole number that a step can have."""
    number = _number(cell)
    if number is None or not 0 <= number < MOST_STEPS or number != int(number):
        return None
    return int(number)


def _number(cell: object) -> float | None:
    """A number of a cell; NaN is one, since a loss can be it."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        return None
    try:
        value = float(cell)
    except (ValueError, OverflowError):
        return None
    return value if math.isnan(value) or abs(value) < 1e300 else None


def _log(
    name: str,
    steps: Mapping[int, Mapping[Quantity, float]],
    lines: int,
    size: int,
    dropped: int,
) -> Log:
    """In the order of the steps; a validation alone is no step of the training."""
    records: list[Window | Event] = []
    bounds = Bounds()
    for step, values in sorted(steps.items()):
        if values.keys() - {"validation_loss"}:
            records.append(bounds.checked(Window(step, values), step))
        elif "validation_loss" in values:
            records.append(Event("validation", step, values["validation_loss"]))
    return Log(name, tuple(records), lines, size, dropped, odd=bounds.found())
