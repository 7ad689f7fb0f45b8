"""clusterjobs logs: prints the log of a job of a spec, with all its attempts."""

import contextlib
import io
import pathlib
from collections.abc import Callable

import click

from clusterjobs.console import completed_by, print_json, printable, submitted_set_option
from clusterjobs.errors import InputError, did_you_mean, one_problem
from clusterjobs.runs.answers import LogsAnswer
from clusterjobs.runs.follow.one_job import (
    FollowedJob,
    LogPrinter,
    PolledQueue,
    job_with_id,
    waiting,
)
from clusterjobs.runs.follow.rank_lines import rank_choice
from clusterjobs.runs.jobs.choose import ChosenLog, NoPointError, chosen_log
from clusterjobs.runs.jobs.records import job_roles, read_folder, unrecorded_attempts
from clusterjobs.runs.status.job import no_record_note
from clusterjobs.slurm.queue import Queued, known_jobs

_EXAMPLES = """\b
Examples:
  clusterjobs logs exp.yaml
  clusterjobs logs 1234 --follow
  clusterjobs logs exp.yaml --rank 3 --tail 100
  clusterjobs logs exp.yaml --role server          (of a job with roles)
  clusterjobs logs sweep.yaml 7
  clusterjobs logs sweep.yaml lr=3e-4,micro=8 --follow
"""
_LINES_OF_JSON = 1000


@click.command(epilog=_EXAMPLES)
@click.argument(
    "spec", type=click.Path(readable=False, path_type=pathlib.Path), metavar="SPEC|JOB_ID"
)
@click.argument(
    "which",
    required=False,
    metavar="[POINT|JOB_ID]",
    shell_complete=completed_by("completed_jobs"),
)
@submitted_set_option
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    metavar="N",
    help="Print only the lines of rank N, without the launcher's labels.",
)
@click.option("--role", metavar="NAME", help="Print the log of this role instead.")
@click.option(
    "-n", "--tail", type=click.IntRange(min=0), metavar="N", help="Start with the last N lines."
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the job has ended.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the job, the log's file and its last lines as JSON; without --tail, 1,000.",
)
def logs(
    spec: pathlib.Path,
    which: str | None,
    settings: tuple[str, ...],
    rank: int | None,
    role: str | None,
    tail: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Print the log of a job, with all its attempts.

    A JOB_ID alone: its spec is looked for here, and where the job was submitted. POINT is a point
    of a sweep: its index, its name, or a part of its name. A SPEC alone: the log of its newest job;
    of a sweep, a list of its points.
    """
    if role is not None and (follow or rank is not None):
        raise click.UsageError("--role cannot be combined with --follow or --rank")
    if as_json and follow:
        raise click.UsageError("--json cannot be combined with --follow")
    if as_json and tail is None:
        tail = _LINES_OF_JSON
    try:
        chosen = chosen_log(spec, which, settings)
    except NoPointError as error:
        click.echo(error.table, err=True)
        raise
    if chosen.unstarted:
        _print(chosen.job_id, chosen.unstarted.output, as_json, lambda: _print_unstarted(chosen))
        return

    def new_printer(path: pathlib.Path) -> LogPrinter:
        labels = None if rank is None else rank_choice(path.parent, rank, chosen.ranks_per_node)
        return LogPrinter(path, labels, tail)

    job = job_with_id(chosen.job_id, chosen.jobs or ())
    log = chosen.base / (job.job_id if job else chosen.job_id) / "job.log"
    if role is not None:
        of_role = _log_of_role(log.parent, role)
        _print(log.parent.name, of_role, as_json, LogPrinter(of_role, None, tail).finish)
        return
    if follow:
        if chosen.jobs is None:
            click.echo("without Slurm this is the log as it is now", err=True)
        followed = FollowedJob(chosen.job_id, chosen.base, new_printer, _queue(chosen), chosen.owns)
        followed.follow()
        if followed.log is None:
            raise _no_log(chosen, None, log)
    elif log.exists():
        _print(log.parent.name, log, as_json, new_printer(log).finish)
    else:
        raise _no_log(chosen, job, log)
    if chosen.jobs is not None:
        _note_missing_record(chosen, log.parent)


def _print(
    job_id: str, log: pathlib.Path | None, as_json: bool, printed: Callable[[], None]
) -> None:
    if not as_json:
        printed()
        return
    with contextlib.redirect_stdout(io.StringIO()) as lines:
        printed()
    answer: LogsAnswer = {
        "job_id": job_id,
        "log": str(log or ""),
        "lines": lines.getvalue().splitlines(),
    }
    print_json(answer)


def _queue(chosen: ChosenLog) -> PolledQueue:
    """The queue, which is not asked again if Slurm is not there, or did not answer."""
    queue = PolledQueue()
    return queue if chosen.jobs is not None else queue.without_slurm()


def _print_unstarted(chosen: ChosenLog) -> None:
    """Print the output of a job that ended before it had a folder."""
    assert chosen.unstarted
    note = chosen.unstarted.note(chosen.job_id)
    if not chosen.unstarted.output:
        raise one_problem(note, hint=f"scontrol show job {chosen.job_id}")
    click.echo(printable(note), err=True)
    LogPrinter(chosen.unstarted.output).finish()


def _log_of_role(folder: pathlib.Path, role: str) -> pathlib.Path:
    roles = {one["role"]: one["log"] for one in job_roles(folder)}
    if role not in roles:
        hint = did_you_mean(role, list(roles)) if roles else "roles are in `roles:` of the spec"
        raise one_problem(f"job {folder.name} has no role {role}", hint=hint)
    return pathlib.Path(roles[role])


def _no_log(chosen: ChosenLog, job: Queued | None, log: pathlib.Path) -> InputError:
    if job and not job.has_ended:
        state = waiting(job) or f"job {job.shown_id} is {job.state}"
        return one_problem(
            f"{state}; it has no log yet",
            hint=f"wait for it: clusterjobs logs {chosen.words} --follow",
        )
    return one_problem(
        f"job {chosen.job_id} has no log {log}: it ended before it could write one",
        hint="its output is in the file of sbatch --output, where it was submitted",
    )


def _note_missing_record(chosen: ChosenLog, folder: pathlib.Path) -> None:
    job = job_with_id(chosen.job_id, filter(chosen.owns, known_jobs() or ()))
    if job is None or job.has_ended:
        for one in unrecorded_attempts(folder, read_folder(folder).attempts):
            click.echo(no_record_note(chosen.job_id, one.number, str(chosen.spec)), err=True)
