"""clusterjobs results: one table of a sweep's points, or of a spec's jobs, with their results."""

import csv
import io
import math
import pathlib
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from clusterjobs.console import print_json, printable, spec_argument, table
from clusterjobs.runs.jobs.states import PENDING, RUNNING
from clusterjobs.runs.results import (
    Row,
    Value,
    columns,
    means,
    number_of,
    ranked,
    result_rows,
    write_parquet,
)
from clusterjobs.runs.status.tables import labels, short
from clusterjobs.spec.references import as_text

_EXAMPLES = """\b
Examples:
  clusterjobs results sweep.yaml
  clusterjobs results sweep.yaml --sort loss         (the best point first)
  clusterjobs results sweep.yaml --over args.seed    (mean and spread over the seeds)
  clusterjobs results sweep.yaml --csv > results.csv
  clusterjobs results sweep.yaml --parquet results.parquet
  clusterjobs results /fsx/logs/lr-width --json | jq '.points[].result.loss'

\b
A program writes its result as JSON, in Python:
  json.dump({"loss": 2.5}, open(os.environ["CLUSTERJOBS_RESULT"], "w"))
"""


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
@click.option("--sort", "key", metavar="COLUMN", help="The point with the smallest number first.")
@click.option("--largest", is_flag=True, help="With --sort: the largest number first.")
@click.option(
    "--over",
    metavar="KEY",
    help="The mean and the standard deviation of the points that differ in KEY alone.",
)
def results(
    spec: pathlib.Path,
    as_csv: bool,
    as_json: bool,
    parquet: pathlib.Path | None,
    key: str | None,
    largest: bool,
    over: str | None,
) -> None:
    """Show the points of the sweep in SPEC: values, state and results.

    SPEC may also be the folder of a sweep. Of each point the newest completed job counts. Without a
    sweep, each job of SPEC is shown.
    """
    if as_csv + as_json + (parquet is not None) > 1:
        raise click.UsageError("choose one of --csv, --json and --parquet")
    if largest and not key:
        raise click.UsageError("--largest needs --sort")
    if over and (as_csv or parquet or key):
        raise click.UsageError("--over prints a table of its own, or --json")
    rows = result_rows(spec)
    if over:
        _show_means(rows, over, as_json)
        return
    if key:
        rows = ranked(rows, key, largest)
    if as_json:
        print_json({"points": [_data(row) for row in rows]})
    elif as_csv:
        click.echo(_csv(*columns(rows)), nl=False)
    elif parquet:
        write_parquet(parquet, *columns(rows))
        click.echo(f"wrote {parquet}", err=True)
    else:
        click.echo(_table(rows))
        if key:
            is_over = not {PENDING, RUNNING}.intersection(row.state for row in rows)
            best = "best" if is_over else "best so far"
            value = number_of(rows[0], key)
            first = rows[0]
            which = f"job {first.job_id}" if first.index is None else f"point {first.index}"
            without = sum(number_of(row, key) is None for row in rows) if is_over else 0
            note = f" ({without:,} of {len(rows):,} without {printable(key)})" if without else ""
            click.echo(f"{best}: {which}, {printable(key)} {value:g}{note}")


def _show_means(rows: Sequence[Row], over: str, as_json: bool) -> None:
    found = means(rows, over)
    if as_json:
        data = [
            {"values": values, "result": {name: one._asdict() for name, one in results.items()}}
            for values, results in found
        ]
        print_json({"over": over, "means": data})
        return
    swept = list(dict.fromkeys(key for values, _ in found for key in values))
    names = list(dict.fromkeys(name for _, results in found for name in results))
    lines = [[*labels(swept), *map(printable, names), "points"]]
    for values, results in found:
        cells = [as_text(values.get(key)) for key in swept]
        for one in map(results.get, names):
            spread = f" +/- {one.spread:.2g}" if one and one.spread is not None else ""
            cells.append(f"{one.mean:.6g}{spread}" if one else "")
        lines.append([*cells, str(max((one.points for one in results.values()), default=0))])
    click.echo(table([list(map(short, line)) for line in lines]))


def _csv(titles: Sequence[str], cells: Sequence[Sequence[Value]]) -> str:
    """Numbers of the spec as they are written: 1e-3."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_harmless, titles))
    writer.writerows([_harmless(as_text(value)) for value in row] for row in cells)
    return text.getvalue()


_FORMULA = re.compile(r"[=+@\t\r-]")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|nan)")


def _harmless(cell: str) -> str:
    """The cell for a terminal and for a spreadsheet, which would run text that starts with = or @.

    An apostrophe makes it text, as spreadsheets do it themselves.
    """
    shown = printable(cell, kept="\n")
    return f"'{shown}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else shown


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
    shown = [["point", *labels(swept), *titles[2 + len(swept) : -3], "job", "problem"]]
    for row in cells:
        *first, problem, job_id, _ = map(as_text, row)
        shown.append([first[0], *first[2:], job_id, problem])
    if all(row.index is None for row in rows):
        shown = [[*line[-2:-1], *line[1:-2], line[-1]] for line in shown]
    return table([list(map(short, line)) for line in shown])
