"""The windows of runs as CSV: one row for each, the columns that any run has."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import get_args

from clusterjobs.report.records import Quantity
from clusterjobs.report.run import Run
from clusterjobs.report.visible import visible

_FORMULA = ("=", "+", "-", "@")  # a spreadsheet would execute such a text


def csv_text(runs: Sequence[Run]) -> str:
    """The columns run, job_id, step, steps, then quantities; unknown values are empty."""
    windows = [(run, window) for run in runs for window in run.windows]
    known = {name for _, window in windows for name in window.values}
    names = [name for name in get_args(Quantity) if name in known]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["run", "job_id", "step", "steps", *names])
    for run, window in windows:
        values = [_number(window.values.get(name)) for name in names]
        writer.writerow([_text(run.name), _text(run.job_id), window.step, window.steps, *values])
    return file.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def _text(value: str) -> str:
    value = visible(value)
    return f"'{value}" if value.startswith(_FORMULA) else value
