"""The files of a sweep's render: its scripts with their points, and points.csv.

It knows which point is in which script; it must not know how plans are made.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.plan.point_arrays import PointArray, PointPlan
from clusterjobs.render.script import Script
from clusterjobs.spec.references import as_text

POINTS = "points.csv"


class SweepTask(NamedTuple):
    """A point in a script. `task`: the index in the array; `key`: `3`, or `3.1` for slot 1 of it;
    "" in a script that is no array."""

    key: str
    task: int
    point: PointPlan


class SweepScript(NamedTuple):
    """One script of a sweep: the file's name, the array that it runs, and the text."""

    file: str
    array: PointArray
    script: Script

    @property
    def text(self) -> str:
        return self.script.text

    @property
    def is_array(self) -> bool:
        """Whether it is a job array; else it runs the only point that it has."""
        return self.array.table.is_array

    @property
    def tasks(self) -> tuple[SweepTask, ...]:
        """The points with their tasks."""
        return tasks_of(self.array)


def tasks_of(array: PointArray) -> tuple[SweepTask, ...]:
    """The points of an array with their tasks."""
    table = array.table
    keys = table.keys if table.is_array else ("",) * len(table.points)
    return tuple(map(SweepTask, keys, table.indexes, table.points))


def script_names(count: int) -> tuple[str, ...]:
    """`job.sh`, or `job-1.sh`, `job-2.sh` ..."""
    return ("job.sh",) if count == 1 else tuple(f"job-{n}.sh" for n in range(1, count + 1))


def points_csv(tasks: Sequence[tuple[str, SweepTask]]) -> str:
    """The table of the points as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(point_rows(tasks))
    return text.getvalue()


def point_rows(tasks: Sequence[tuple[str, SweepTask]]) -> Iterator[tuple[str, ...]]:
    """Index, name, script, task, and a column for each swept key; the titles first."""
    keys = list(dict.fromkeys(key for _, task in tasks for key in task.point.point.values))
    yield ("index", "name", "script", "task", *keys)
    for file, task in tasks:
        point = task.point.point
        values = (shown(point.values[key]) if key in point.values else "" for key in keys)
        yield (str(point.index), point.name, file, task.key, *values)


def shown(value: Any) -> str:
    """A swept value as in `--set`; lists and mappings as JSON."""
    return json.dumps(value) if isinstance(value, (dict, list)) else as_text(value)
