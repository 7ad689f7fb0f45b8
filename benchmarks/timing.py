"""Rows of a benchmark: what was measured, the baseline and the target.

On a shared machine ratios mean more than seconds. Baseline and clusterjobs are therefore measured
alternately, and their medians are compared.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One line of a table. `is_met` is None if there is no target.

    `baseline` and `ours` are in `unit`. A row without a baseline is a plain number.
    """

    what: str
    unit: str
    baseline: float | None
    ours: float
    target: str = ""
    is_met: bool | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.baseline if self.baseline else None


def at_most(what: str, unit: str, baseline: float, ours: float, limit: float) -> Row:
    """A row whose target is a multiple of the baseline."""
    return Row(what, unit, baseline, ours, f"<= {limit:g} x baseline", ours <= limit * baseline)


def medians_in_turns(
    measured: Mapping[str, Callable[[], float]], runs: int, warm_up: int = 1
) -> dict[str, float]:
    """The median of each over `runs` rounds; every round measures each of them once."""
    found: dict[str, list[float]] = {name: [] for name in measured}
    for number in range(warm_up + runs):
        for name, measure in measured.items():
            seconds = measure()
            if number >= warm_up:
                found[name].append(seconds)
    return {name: statistics.median(values) for name, values in found.items()}


def first_run_done(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a process that reads no site folder of the user.

    It caches byte code and compiled templates below `folder`, as an installed package does.
    """
    left_out = ("PYTHONDONTWRITEBYTECODE", "CLUSTERJOBS_SITE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    caches = {"PYTHONPYCACHEPREFIX": "byte-code", "XDG_CACHE_HOME": "cache"}
    below = {name: str(folder / path) for name, path in caches.items()}
    return {**kept, **below, "XDG_CONFIG_HOME": str(folder / "config"), **more}


def process_seconds(
    command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> float:
    """The wall-clock time of a whole process."""
    start = time.perf_counter()
    subprocess.run(command, env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def processor_seconds(
    command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
) -> float:
    """The CPU time of a whole process: other processes on the machine do not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process_seconds(command, environment, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


# ------------------------------------------------------------------ tables

_HEAD = ("what", "baseline", "clusterjobs", "ratio", "target", "met")


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, which is readable in a terminal too."""
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    lines = [_line(line, widths) for line in cells]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(w) for cell, w in zip(cells, widths, strict=True)) + " |"


def _cells(row: Row) -> tuple[str, ...]:
    baseline = "" if row.baseline is None else _number(row.baseline, row.unit)
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    met = {True: "yes", False: "NO", None: ""}[row.is_met]
    return row.what, baseline, _number(row.ours, row.unit), ratio, row.target, met


def _number(value: float, unit: str) -> str:
    digits = 0 if isinstance(value, int) or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()
