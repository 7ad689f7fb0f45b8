"""The results of a sweep's points as rows: of each point its newest completed job."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterjobs.errors import one_problem
from clusterjobs.runs.folders import digest_of, point_folders, point_jobs
from clusterjobs.runs.lab_paths import named_here
from clusterjobs.runs.records import read_folder
from clusterjobs.runs.results import Result, Value, read_result
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.runs.status.queue import ask_queue
from clusterjobs.runs.status.sweep import SweepData, folder_sweep, is_sweep_folder, spec_sweep

_BEFORE, _AFTER = ("index", "point"), ("problem", "job_id", "folder")


@dataclass(frozen=True)
class Row:
    """A point and the result of its newest completed job; "" if no job of it has completed."""

    index: int
    name: str
    values: dict[str, Any]
    state: str
    result: Result
    job_id: str
    folder: str


def sweep_of(spec: pathlib.Path) -> SweepData:
    """The sweep of a spec, or of its folder. Raises InputError."""
    folder = named_here(spec)
    if folder.is_dir():
        if not is_sweep_folder(folder):
            hint = "name the spec, or the folder of a sweep: /fsx/logs/lr-width"
            raise one_problem(f"{spec} is no folder of a sweep", hint=hint)
        return folder_sweep(folder).with_states(ask_queue())
    points = SpecFiles(spec).load_points()
    if points[0].spec.sweep is None:
        hint = f"only the points of a sweep have results: see clusterjobs status {spec}"
        raise one_problem(f"{spec} has no sweep", hint=hint)
    return spec_sweep(spec, points).with_states(ask_queue())


def rows_of(sweep: SweepData) -> list[Row]:
    """A row for each point. Of each point the newest completed job counts."""
    folders = point_folders(sweep.sweep.folder)
    rows = []
    for known in sweep.sweep.points:
        job = _completed(folders.get(digest_of(known.name), ()))
        result = (job and read_result(job)) or Result({})
        place = (job.name, str(job)) if job else ("", "")
        state = sweep.states[known.name].state
        rows.append(Row(known.index, known.name, dict(known.values), state, result, *place))
    return rows


def _completed(folders: Sequence[pathlib.Path]) -> pathlib.Path | None:
    """The newest job that has completed."""
    for job in reversed(point_jobs(folders)):
        attempts = read_folder(job).attempts
        if attempts and attempts[-1].reason == "completed":
            return job
    return None


def columns(rows: Sequence[Row]) -> tuple[list[str], list[list[Value]]]:
    """Titles and cells. A result with the name of another column is called `result.NAME`."""
    swept = list(dict.fromkeys(key for row in rows for key in row.values))
    found = list(dict.fromkeys(key for row in rows for key in row.result.values))
    taken = {*_BEFORE, *swept, "state", *_AFTER}
    named = [f"result.{key}" if key in taken else key for key in found]
    cells = [
        [
            *(row.index, row.name),
            *(_scalar(row.values.get(key)) for key in swept),
            row.state,
            *(row.result.values.get(key) for key in found),
            *(row.result.problem, row.job_id, row.folder),
        ]
        for row in rows
    ]
    return [*_BEFORE, *swept, "state", *named, *_AFTER], cells


def _scalar(value: Any) -> Value:
    return value if isinstance(value, (str, int, float)) or value is None else str(value)
