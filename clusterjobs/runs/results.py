"""result.json, which a job's program writes to $CLUSTERJOBS_RESULT: numbers and texts by name."""

import itertools
import json
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs.console import say_on_stderr
from clusterjobs.errors import one_problem
from clusterjobs.files import open_regular
from clusterjobs.plugins import named_here
from clusterjobs.runs.jobs.folders import digest_of, point_folders, point_jobs
from clusterjobs.runs.jobs.records import read_folder
from clusterjobs.runs.jobs.states import COMPLETED
from clusterjobs.runs.status.job import JobData, Queue, ask_queue
from clusterjobs.runs.status.sweep import SweepData, folder_sweep
from clusterjobs.runs.status.targets import Finder

RESULT = "result.json"
MOST = 1 << 20  # bytes
MOST_VALUES = 1000  # each is a column of the table

Value = str | int | float | bool | None


class Result(NamedTuple):
    """The values by their keys, nested ones joined by dots; what is wrong with the file, or ""."""

    values: Mapping[str, Value]
    problem: str = ""


def read_result(job: pathlib.Path) -> Result | None:
    """The result in the folder of a job; None if the program wrote none."""
    try:
        with open_regular(job / RESULT) as file:
            data = file.read(MOST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Result({}, f"{RESULT} cannot be read: {error.strerror}")
    if len(data) > MOST:
        return Result({}, f"{RESULT} is larger than {MOST >> 20} MiB")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        return Result({}, f"{RESULT} is no JSON: {str(error) or type(error).__name__}")
    if not isinstance(content, dict):
        return Result({}, f'{RESULT} is no object: write {{"loss": 2.5}}')
    return _flat(content)


def _flat(content: Mapping[str, Any]) -> Result:
    """Lists stay lists, as JSON."""
    values: dict[str, Value] = {}
    problems = []
    leaves = list(itertools.islice(_leaves(content), MOST_VALUES + 1))
    if len(leaves) > MOST_VALUES:
        problems.append(f"{RESULT} has more than {MOST_VALUES:,} values: the first are shown")
    for key, value in leaves[:MOST_VALUES]:
        if key in values:
            problems.append(f"{key} is in {RESULT} twice")
        if isinstance(value, float) and not math.isfinite(value):
            problems.append(f"{key} is {value}")
        values[key] = json.dumps(value) if isinstance(value, list) else value
    return Result(values, "; ".join(problems))


def _leaves(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of a file by their names, found without recursion: it may be nested deeply."""
    waiting = [("", content)]
    while waiting:
        prefix, found = waiting.pop()
        inner = []
        for key, value in found.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict):
                inner.append((f"{name}.", value))
            else:
                yield name, value
        waiting += reversed(inner)


# ------------------------------------------------------------------ results parquet
# Writes a table as Parquet, with pyarrow, which clusterjobs does not need otherwise.


_MOST = 2**63  # integers of Parquet have 64 bits


def write_parquet(
    file: pathlib.Path, titles: Sequence[str], rows: Sequence[Sequence[Value]]
) -> None:
    """Raises InputError if pyarrow is missing, or the file cannot be written."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise one_problem(
            "Parquet needs the package pyarrow", hint="pip install pyarrow, or use --csv"
        ) from None
    cells = zip(*rows, strict=True) if rows else ([] for _ in titles)
    arrays = [pyarrow.array(column(one)) for one in cells]
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, list(titles)), file)
    except OSError as error:
        raise one_problem(f"cannot write {file}: {error.strerror or error}") from None


def column(cells: Iterable[Value]) -> list[Any]:
    """The cells in one type: numbers, truth values, or texts for anything else."""
    found = [_plain(cell) for cell in cells]
    kinds = {type(cell) for cell in found if cell is not None}
    small = all(abs(cell) < _MOST for cell in found if type(cell) is int)
    if kinds == {float, int}:
        return [None if cell is None else float(cell) for cell in found]
    if len(kinds) < 2 and small and kinds <= {float, int, bool}:
        return found
    # UTF-8 has no half of a pair of surrogates
    return [None if cell is None else str(cell).encode(errors="replace").decode() for cell in found]


def _plain(cell: Value) -> Value:
    """Numbers of a spec know how they are written; pyarrow wants Python's own."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return cell
    return int(cell) if isinstance(cell, int) else float(cell)


# ------------------------------------------------------------------ result rows
# The results of a sweep's points, or of the jobs of another spec, as rows.


_BEFORE, _AFTER = ("index", "point"), ("problem", "job_id", "folder")


@dataclass(frozen=True)
class Row:
    """A point and the result of its newest completed job; "" if no job of it has completed.

    Of a spec without a sweep, a job and its result; `index` is None.
    """

    index: int | None
    name: str
    values: dict[str, Any]
    state: str
    result: Result
    job_id: str
    folder: str


def result_rows(target: pathlib.Path) -> list[Row]:
    """A row for each point of a sweep or of its folder, or for each job of a spec without a sweep.

    Raises InputError.
    """
    folder = named_here(target)
    if folder.is_dir():
        sweep = folder_sweep(folder)
        if sweep is None:
            hint = "name the spec, or the folder of a sweep: /fsx/logs/lr-width"
            raise one_problem(f"{target} is no folder of a sweep", hint=hint)
        return _rows_of_points(sweep.with_states(_queue()))
    group = Finder().spec(target)(_queue())
    if group.found:
        group.found.chosen(None)  # there must be one
    jobs = [_row_of_job(job) for job in group.jobs]
    return [*jobs, *(row for sweep in group.sweeps for row in _rows_of_points(sweep))]


def _queue() -> Queue:
    """Which points still run; if Slurm does not answer, a message says so."""
    queue = ask_queue()
    if queue.silence:
        say_on_stderr(queue.silence)
    return queue


def _row_of_job(job: JobData) -> Row:
    has_result = job["status"] == COMPLETED
    result = read_result(pathlib.Path(job["folder"])) if has_result else None
    place = (job["job_id"], job["folder"])
    return Row(None, job["name"], {}, job["status"], result or Result({}), *place)


def _rows_of_points(sweep: SweepData) -> list[Row]:
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


def ranked(rows: Sequence[Row], key: str, largest_first: bool) -> list[Row]:
    """The rows sorted by a result or a swept value; those without such a number last.

    Raises InputError if no row has it.
    """
    numbers = [(number_of(row, key), row) for row in rows]
    if all(number is None for number, _ in numbers):
        titles, _ = columns(rows)
        raise one_problem(
            f"--sort {key}: no result has such a number",
            hint=f"columns: {', '.join(titles[len(_BEFORE) : -len(_AFTER)])}",
        )
    known = [(number, row) for number, row in numbers if number is not None]
    known.sort(key=lambda one: one[0], reverse=largest_first)
    return [*(row for _, row in known), *(row for number, row in numbers if number is None)]


class Mean(NamedTuple):
    """A result of several points. `spread`: the standard deviation of a sample; None for one."""

    mean: float
    spread: float | None
    points: int


def means(rows: Sequence[Row], key: str) -> list[tuple[dict[str, Any], dict[str, Mean]]]:
    """The values and results of the points that differ in `key` alone. Raises InputError."""
    import statistics  # for this alone

    swept = list(dict.fromkeys(name for row in rows for name in row.values))
    if key not in swept:
        hint = f"swept keys: {', '.join(swept)}" if swept else "the spec has no sweep"
        raise one_problem(f"--over {key}: the points do not differ in such a key", hint=hint)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        same = {name: value for name, value in row.values.items() if name != key}
        groups.setdefault(repr(same), []).append(row)
    found = []
    for group in groups.values():
        results: dict[str, Mean] = {}
        for name in dict.fromkeys(name for row in group for name in row.result.values):
            numbers = [
                one for row in group if (one := number_of(row, f"result.{name}")) is not None
            ]
            if numbers:
                spread = statistics.stdev(numbers) if len(numbers) > 1 else None
                results[name] = Mean(statistics.fmean(numbers), spread, len(numbers))
        values = {name: value for name, value in group[0].values.items() if name != key}
        found.append((values, results))
    return found


def number_of(row: Row, key: str) -> float | None:
    """The finite number of a column, from the result or the values of the sweep."""
    value = row.result.values.get(key.removeprefix("result."), row.values.get(key))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


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
