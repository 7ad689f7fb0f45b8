"""clusterjobs report: how fast, how efficient, and what was lost."""

import json
import pathlib
import sys
from collections.abc import Sequence

import click

_EXAMPLES = """\b
Examples:
  clusterjobs report exp.yaml                        (its newest job, also while it runs)
  clusterjobs report exp.yaml 251726 --against exp.yaml
  clusterjobs report logs/251726/job.log train.log.gz
  clusterjobs report train.log --spec exp.yaml       (its model, GPUs and price)
  clusterjobs report sweep.yaml --html report.html
  clusterjobs report exp.yaml --json | jq '.runs[0].mfu'
"""
_FILE = click.Path(path_type=pathlib.Path, dir_okay=False)


@click.command(epilog=_EXAMPLES)
@click.argument("targets", nargs=-1, required=True, metavar="SPEC|JOB_ID|LOG...")
@click.option(
    "--spec",
    type=_FILE,
    metavar="SPEC",
    help="What a LOG is of: its model, GPUs, price and own patterns.",
)
@click.option(
    "--against",
    type=_FILE,
    metavar="SPEC",
    help="Compare with what foresight predicts for SPEC.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script to read.")
@click.option(
    "--html", type=_FILE, metavar="FILE", help="Write one page with plots, which needs no network."
)
@click.option("--csv", "as_csv", type=_FILE, metavar="FILE", help="Write the steps as CSV.")
@click.option(
    "--tensorboard",
    type=click.Path(path_type=pathlib.Path, file_okay=False),
    metavar="DIR",
    help="Write TensorBoard's event files, a folder for each run.",
)
def report(
    targets: tuple[str, ...],
    spec: pathlib.Path | None,
    against: pathlib.Path | None,
    as_json: bool,
    html: pathlib.Path | None,
    as_csv: pathlib.Path | None,
    tensorboard: pathlib.Path | None,
) -> None:
    """Report what runs achieved, from their logs.

    Speed, efficiency, loss, lost time and cost of one job with all its attempts. Several runs are
    compared. A folder stands for the jobs in it, and - for standard input.
    """
    from clusterjobs.report.compare import rank_tables, tables_of
    from clusterjobs.report.exports import csv_text, report_data, write_tensorboard
    from clusterjobs.report.read import Specs, progress_for, read_target
    from clusterjobs.report.targets import find_targets
    from clusterjobs.report.text import run_text, table_text, unread_text
    from clusterjobs.runs.write import write_text

    logs_to_read, missing = find_targets(targets, spec)
    for note in missing:
        click.echo(note, err=True)
    specs = Specs()
    found = [read_target(one, specs, progress_for(one)) for one in logs_to_read]
    runs = [run for run, _ in found]
    tables = tables_of(runs, against)
    for one, (run, log) in zip(logs_to_read, found, strict=True):
        tables += rank_tables(run, log, one.folder)
    if html:
        from clusterjobs.report.page import page

        write_text(html, page(runs, tables))
        click.echo(f"wrote {html}", err=True)
    if as_csv:
        write_text(as_csv, csv_text(runs))
        click.echo(f"wrote {as_csv}", err=True)
    if tensorboard:
        write_tensorboard(tensorboard, runs)
        click.echo(f"wrote {tensorboard}", err=True)
    if as_json:
        click.echo(json.dumps(report_data(runs, tables)))  # indents would make it five times longer
        return
    as_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    unread = [one for one in found if not one[0].windows]
    with_pattern = any(specs.has_pattern(one.spec) for one in logs_to_read)
    failure: Sequence[str] = ()
    if unread and len(found) == 1 and (path := logs_to_read[0].log):
        from clusterjobs.runs.status.log_end import MOST, first_traceback, read_log_end

        traceback = first_traceback(read_log_end(path, MOST))
        failure = traceback.lines if traceback else ()
    blocks = [unread_text(unread, with_pattern, failure)] if unread else []
    blocks += [run_text(run, as_unicode) for run in runs] if len(runs) == 1 else []
    click.echo("\n\n".join([*blocks, *map(table_text, tables)]))
