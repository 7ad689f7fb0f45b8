"""The view of jobs and sweeps as text: tables, and one line for each sweep."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from clusterjobs.console import printable, table
from clusterjobs.errors import counted
from clusterjobs.runs.jobs.states import RUNNING, STATES
from clusterjobs.runs.status.job import JobData
from clusterjobs.runs.status.sweep import SweepData
from clusterjobs.slurm.queue import as_ranges
from clusterjobs.spec.references import as_text

_JOB_HEAD = ("job", "state", "attempts", "step", "last checkpoint", "why")
_ATTEMPT_KEYS = ("number", "reason", "exit_code", "checkpoint", "seconds", "nodes")
_ATTEMPT_HEAD = ("attempt", "why it ended", "exit code", "last checkpoint", "seconds", "nodes")
_DATA_HEAD = ("data", "node", "how it stands")
_EXPORT_HEAD = ("export", "how it stands")
_ROLE_HEAD = ("role", "nodes", "port", "log")
_MOST_CELL = 60  # characters of a value in the table of points
_MOST_TEXT = 300  # of several words


def jobs_table(jobs: Iterable[JobData]) -> str:
    """One row for each job; tasks of one array that do the same share one: `123_[0-4]`."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for job in jobs:
        job_id, *row = _job_row(job)
        array, _, task = job_id.partition("_")
        rows.setdefault((array, "_" if task else "", *row), []).extend([int(task)] if task else [])
    shown = [(_array(array, mark, tasks), *row) for (array, mark, *row), tasks in rows.items()]
    return table([_JOB_HEAD, *shown])


def _array(array: str, mark: str, tasks: Sequence[int]) -> str:
    """`123`, `123_4`, or `123_[0-2,7]`."""
    if len(tasks) < 2:
        return f"{array}{mark}{tasks[0] if tasks else ''}"
    return f"{array}{mark}[{as_ranges(tasks)}]"


def job_details(job: JobData) -> Iterator[str]:
    """A table of its attempts, and of its roles, data and exports if there are any."""
    attempts = [{**one, "checkpoint": _checkpoint(one)} for one in job["attempts"]]
    yield table([_ATTEMPT_HEAD, *(_cells(one, *_ATTEMPT_KEYS) for one in attempts)])
    if job["roles"]:
        yield table([_ROLE_HEAD, *(_cells(one, *_ROLE_HEAD) for one in job["roles"])])
    if job["data"]:
        yield table([_DATA_HEAD, *(_cells(one, "what", "node", "said") for one in job["data"])])
    if job["exports"]:
        yield table([_EXPORT_HEAD, *(_cells(one, "what", "said") for one in job["exports"])])


def traceback_text(job: JobData) -> str:
    """The traceback with its rank; "" if there is none."""
    found = job["traceback"]
    if not found:
        return ""
    rank = found["rank"]
    if rank:
        rank = f" of rank {rank}" if rank.isdecimal() else f" of {rank}"
    lines = (f"  {printable(line)}".rstrip() for line in found["lines"])
    return "\n".join([f"job {job['job_id']}, {found['what']}{printable(rank)}:", *lines])


def sweep_line(sweep: SweepData) -> str:
    """`lr-width: 12 points: 8 completed, 1 running, 3 failed`.

    Points that the spec no longer has are counted on their own.
    """
    number = counted(len(sweep.states), "point")
    line = f"{printable(sweep.sweep.name)}: {number}: {_listed(sweep.counts())}"
    former = len(sweep.former_states)
    counts = _listed(sweep.former_counts())
    return f"{line}; {former:,} no longer in the spec: {counts}" if former else line


def points_table(points: Sequence[Mapping[str, Any]], metric: str) -> str:
    """One row for each point. `metric`: the title of its column, "" for none.

    Its index, or its name: the spec may have given the index to another point.
    """
    keys = list(dict.fromkeys(key for point in points for key in point["values"]))
    head = ["point", *labels(keys), "state", "job", "attempts", "step"]
    saved = any(point["checkpoint"] for point in points)
    head += ["last checkpoint"] if saved else []
    rows = [[*head, *([metric] if metric else []), "why"]]
    for point in points:
        values = (_value(point["values"], key) for key in keys)
        own = str(point["index"]) if point["in_spec"] else point["name"]
        row = [own, *values, point["state"], point["job_id"]]
        row += [_text(point["attempt"]) if point["attempt"] else "", _step(point)]
        row += [_checkpoint(point)] if saved else []
        rows.append([*row, *([_text(point["metric"])] if metric else []), _point_why(point)])
    return table([[short(cell) for cell in row] for row in rows])


def summary_line(jobs: Sequence[JobData], sweeps: Sequence[SweepData]) -> str:
    """`5 jobs: 3 completed, 2 running`, over all; "" if there is one job or one sweep."""
    if len(jobs) + len(sweeps) < 2:
        return ""
    states: Counter[str] = Counter(job["status"] for job in jobs)
    for sweep in sweeps:
        states.update(sweep.counts())
    points = sum(len(sweep.states) for sweep in sweeps)
    what = [counted(len(jobs), "job")] if jobs else []
    what += [counted(points, "point")] if points else []
    known = {state: states[state] for state in STATES if states[state]}
    return f"{' and '.join(what)}: {_listed(known)}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {state}" for state, number in counts.items()) or "none"


# ------------------------------------------------------------------ rows


def _job_row(job: JobData) -> tuple[str, ...]:
    count = len(job["attempts"]) + (job["status"] == RUNNING)
    why = "; ".join(filter(None, _reasons(job)))
    row = (job["job_id"], job["state"] or "ended", str(count), _step(job), _checkpoint(job), why)
    return tuple(map(printable, row))


def _reasons(job: JobData) -> Iterator[str]:
    if job["waits_for"]:
        yield f"waits: {job['waits_for']}"
        yield _expected(job)
    if job["status"] == RUNNING:
        yield _left(job)
    if not job["has_folder"]:
        yield "not_started"
    elif job["attempts"]:
        last = job["attempts"][-1]
        code = "" if last["exit_code"] is None else f", exit code {last['exit_code']}"
        which = f"attempt {last['number']}: " if job["waits_for"] or job["time_left"] else ""
        yield f"{which}{last['reason']}{code}" if last["reason"] else ""
    yield job["message"]
    if any(one["incomplete"] for one in job["exports"]):
        yield "export incomplete"


def _point_why(point: Mapping[str, Any]) -> str:
    if point["waits_for"]:
        return "; ".join(filter(None, [f"waits: {point['waits_for']}", _expected(point)]))
    if point["state"] == RUNNING:
        return _left(point)
    code = point["exit_code"]
    why = f"{point['reason']}, exit code {code}" if point["reason"] and code else point["reason"]
    return "; ".join(filter(None, [why, point["message"]]))


def _expected(one: Mapping[str, Any]) -> str:
    """Slurm's guess, to the minute."""
    start = one["expected_start"]
    return f"expected to start {start.replace('T', ' ')[:16]}" if start else ""


def _left(one: Mapping[str, Any]) -> str:
    left = one["time_left"]
    left = "no time limit" if left in ("UNLIMITED", "NOT_SET") else f"{left} left" if left else ""
    return ", ".join(filter(None, [left, one["nodes"] and f"on {one['nodes']}"]))


def _step(one: Mapping[str, Any]) -> str:
    if one["step"] is None:
        return ""
    return f"{one['step']}/{one['steps']}" if one["steps"] else str(one["step"])


_DATED = re.compile(r"(\d{4}-\d\d-\d\d)\+(\d\d:\d\d:\d\d)\.\d+ (.+)")  # of attempt_files.py


def _checkpoint(one: Mapping[str, Any]) -> str:
    """The newest one; with its time where no marker names it, but its own entry in the folder."""
    found = _DATED.fullmatch(text := _text(one["checkpoint"]))
    return f"{found[3]} ({found[1]} {found[2]})" if found else text


def _cells(one: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(printable(_text(one[name])) for name in names)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _value(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key, "")
    return str(value) if isinstance(value, (dict, list, tuple)) else as_text(value)


def short(cell: str) -> str:
    """A cell of a table of points."""
    text = printable(cell)
    most = _MOST_TEXT if " " in text else _MOST_CELL
    return text if len(text) <= most else f"{text[: most - 3]}..."


def labels(keys: Sequence[str]) -> list[str]:
    """The last word of each key, or the whole key where two would be equal."""
    last = [key.rpartition(".")[2] for key in keys]
    return [word if last.count(word) == 1 else key for key, word in zip(keys, last, strict=True)]
