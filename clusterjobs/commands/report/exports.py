"""Writes the series of runs for other tools: CSV, and TensorBoard's event files."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from clusterjobs.commands.write import replace_file
from clusterjobs.errors import one_problem
from clusterjobs.report.data import SERIES
from clusterjobs.report.export_csv import csv_text
from clusterjobs.report.records import Window
from clusterjobs.report.run import Run

_EVENTS = "events.out.tfevents.0.clusterjobs"  # TensorBoard looks for `tfevents` in the name


def write_csv(path: pathlib.Path, runs: Sequence[Run]) -> None:
    """Write it completely or not at all. Raises InputError if that is not possible."""
    try:
        replace_file(path, csv_text(runs))
    except OSError as error:
        raise one_problem(f"cannot write {path}: {error.strerror}") from None


def write_tensorboard(folder: pathlib.Path, runs: Sequence[Run]) -> None:
    """A folder below `folder` for each run. Raises InputError without the package tensorboard."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError:
        raise one_problem(
            "--tensorboard needs the package tensorboard",
            hint="pip install 'clusterjobs[tensorboard]', or use --csv",
        ) from None
    for name, run in _named(runs):
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
            with (folder / name / _EVENTS).open("wb") as file:
                writer = RecordWriter(file)
                writer.write(Event(wall_time=0, file_version="brain.Event:2").SerializeToString())
                for window in run.windows:
                    writer.write(_event(Event, window).SerializeToString())
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


def _event(event: Any, window: Window) -> Any:
    """One event with all values of the window; its time is that of the log, if it has one."""
    found = event(step=window.step, wall_time=window.values.get("time", 0.0))
    for name in SERIES:
        if name in window.values:
            found.summary.value.add(tag=name, simple_value=window.values[name])
    return found
