"""clusterjobs status: the command line."""

import pathlib
import re

import click

from clusterjobs.console import (
    completed_by,
    print_json,
    printable,
    show_problems,
    submitted_set_option,
)
from clusterjobs.errors import InputError, one_problem
from clusterjobs.runs.status.report import Report, Wanted, make_report, metric_pattern
from clusterjobs.runs.status.report import watch as redraw

_EXAMPLES = """\b
Examples:
  clusterjobs status
  clusterjobs status exp.yaml
  clusterjobs status exp.yaml 1234
  clusterjobs status sweep.yaml --points --metric 'loss=([0-9.]+)'
  clusterjobs status experiments/ /fsx/logs --watch 30
  clusterjobs status exp.yaml --json | jq '.jobs[-1].attempts[-1].reason'
"""
_JOB_ID = re.compile(r"[0-9]{1,18}(_[0-9]{1,18})?")


@click.command(epilog=_EXAMPLES)
@click.argument(
    "targets",
    nargs=-1,
    metavar="[TARGET]...",
    shell_complete=completed_by("completed_jobs"),
)
@submitted_set_option
@click.option("--points", is_flag=True, help="Show a table of the points of each sweep.")
@click.option(
    "--metric",
    metavar="PATTERN",
    help="With --points: show the last match of this regular expression in the log (one group). "
    "Default: the sweep's own `metric`.",
)
@click.option(
    "--watch",
    type=click.FloatRange(min=1),
    is_flag=False,
    flag_value=10,
    metavar="[SECONDS]",
    help="Redraw every 10 (or SECONDS) seconds until all jobs have ended, or Ctrl-C. "
    "Put it after the targets.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print all jobs, attempts and points as JSON."
)
def status(
    targets: tuple[str, ...],
    settings: tuple[str, ...],
    points: bool,
    metric: str | None,
    watch: float | None,
    as_json: bool,
) -> None:
    """Show jobs and sweeps: why they wait, their progress, why they ended.

    TARGET is a spec, a folder with specs, a `logs` folder, or a job id; a job id shows each attempt
    of the job. Without TARGET: your jobs that Slurm knows. It reads the jobs' folders, and calls
    squeue once.
    """
    if as_json and watch:
        raise click.UsageError("--watch redraws for people: write --json without it")
    if metric is not None:
        points = True
    if settings and not any(pathlib.Path(one).is_file() for one in targets):
        raise click.UsageError("--set changes a spec, and none is named")
    wanted = Wanted(
        tuple(pathlib.Path(one) for one in targets if not _JOB_ID.fullmatch(one)),
        tuple(one for one in targets if _JOB_ID.fullmatch(one)),
        points,
        _pattern(metric),
        settings,
    )
    if watch:
        redraw(lambda: _answered(wanted), watch)
        return
    if not as_json:
        _show(_checked(wanted))
        return
    report = make_report(wanted)
    show_problems(report.problems)
    if report.queue.silence:
        click.echo(printable(report.queue.silence), err=True)
    print_json(report.data())


def _answered(wanted: Wanted) -> Report:
    """Raises InputError if Slurm does not answer: a look with unknown states is no news."""
    report = _checked(wanted)
    if report.queue.silence:
        raise one_problem(report.queue.silence)
    return report


def _checked(wanted: Wanted) -> Report:
    report = make_report(wanted)
    report.check()
    return report


def _show(report: Report) -> None:
    click.echo(report.text())
    show_problems(report.problems)
    for note in report.notes():
        click.echo(printable(note), err=True)


def _pattern(metric: str | None) -> re.Pattern[str] | None:
    try:
        return None if metric is None else metric_pattern(metric)
    except InputError as error:
        problem = error.problems[0]
        raise click.UsageError(f"--metric: {problem.what}; {problem.hint}") from None
