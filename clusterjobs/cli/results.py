"""clusterjobs results: one table of a sweep's points, their values and their results."""

from __future__ import annotations

import csv
import io
import math
import pathlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from clusterjobs.console.options import spec_argument
from clusterjobs.console.show import print_json, table
from clusterjobs.errors import one_problem
from clusterjobs.runs.folders import digest_of, point_folders, point_jobs
from clusterjobs.runs.lab_paths import named_here
from clusterjobs.runs.records import read_folder
from clusterjobs.runs.results import Result, Value, read_result, write_parquet
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.runs.status.queue import ask_queue
from clusterjobs.runs.status.sweep import SweepData, folder_sweep, is_sweep_folder, spec_sweep
from clusterjobs.runs.status.tables import labels, short
from clusterjobs.spec.references import as_text

_EXAMPLES = """\b
Examples:
  clusterjobs results sweep.yaml
  clusterjobs results sweep.yaml --csv > results.csv
  clusterjobs results sweep.yaml --parquet results.parquet
  clusterjobs results /fsx/logs/lr-width --json | jq '.points[].result.loss'

\b
A program writes its result as JSON, in Python:
  json.dump({"loss": 2.5}, open(os.environ["CLUSTERJOBS_RESULT"], "w"))
"""
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


@click.command(epilog=_EXAMPLES)
@spec_argument
@click.option("--csv", "as_csv", is_flag=True, help="Print the table as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
@click.option(
    "--parquet",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    metavar="FILE",
    help="Write the table as Parquet; needs pyarrow.",
)
def results(spec: pathlib.Path, as_csv: bool, as_json: bool, parquet: pathlib.Path | None) -> None:
    """Show the points of the sweep in SPEC: values, state and results.

    SPEC may also be the folder of a sweep. Of each point the newest completed job counts.
    """
    if as_csv + as_json + (parquet is not None) > 1:
        raise click.UsageError("choose one of --csv, --json and --parquet")
    rows = _rows(_sweep(spec))
    if as_json:
        print_json({"points": [_data(row) for row in rows]})
    elif as_csv:
        click.echo(_csv(*columns(rows)), nl=False, color=True)  # else it removes escape sequences
    elif parquet:
        write_parquet(parquet, *columns(rows))
        click.echo(f"wrote {parquet}", err=True)
    else:
        click.echo(_table(rows))


def _sweep(spec: pathlib.Path) -> SweepData:
    folder = named_here(spec)
    if folder.is_dir():
        if not is_sweep_folder(folder):
            hint = "name the spec, or the folder of a sweep: /fsx/logs/lr-width"
            raise one_problem(f"{spec} is no folder of a sweep", hint=hint)
        return folder_sweep(folder).with_states(ask_queue())
    points = SpecFiles(spec).load_points()
    if points[0].experiment.sweep is None:
        hint = f"only the points of a sweep have results: see clusterjobs status {spec}"
        raise one_problem(f"{spec} has no sweep", hint=hint)
    return spec_sweep(spec, points).with_states(ask_queue())


def _rows(sweep: SweepData) -> list[Row]:
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


# ------------------------------------------------------------------ forms


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


def _csv(titles: Sequence[str], cells: Sequence[Sequence[Value]]) -> str:
    """Numbers of the spec as they are written: 1e-3."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(map(as_text, row) for row in cells)
    return text.getvalue()


def _data(row: Row) -> dict[str, Any]:
    """Numbers that JSON does not have are null; `problem` names them."""
    result = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.result.values.items()
    }
    return {**asdict(row), "result": result, "problem": row.result.problem}


def _table(rows: Sequence[Row]) -> str:
    swept = list(dict.fromkeys(key for row in rows for key in row.values))
    titles, cells = columns(rows)
    shown = ["point", *labels(swept), *titles[2 + len(swept) : -3], "job", "problem"]
    table_rows = [list(map(short, shown))]
    for row in cells:
        *first, problem, job_id, _ = map(as_text, row)
        table_rows.append([short(cell) for cell in (first[0], *first[2:], job_id, problem)])
    return table(table_rows)
