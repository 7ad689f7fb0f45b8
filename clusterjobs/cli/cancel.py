"""clusterjobs cancel: cancel jobs, so that they do not restart."""

from collections import Counter
from typing import Any

import click

from clusterjobs.console import (
    completed_by,
    print_json,
    printable,
    problem_data,
    submitted_set_option,
)
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.runs.jobs.cancellation import cancel_recorded
from clusterjobs.runs.jobs.choose import Chosen, choose
from clusterjobs.runs.jobs.states import MISSING
from clusterjobs.slurm.queue import WAITING, Queued, known_jobs

_EXAMPLES = """\b
Examples:
  clusterjobs cancel exp.yaml
  clusterjobs cancel sweep.yaml 3,7-9 '*lr=1e-3*'
  clusterjobs cancel 1234 1235
  clusterjobs cancel 1234_7

The last is a task of an array; the array's own id ends all its tasks.
"""


@click.command(epilog=_EXAMPLES)
@click.argument(
    "what",
    nargs=-1,
    required=True,
    metavar="[SPEC [POINT...]|JOB_ID]...",
    shell_complete=completed_by("completed_jobs"),
)
@submitted_set_option
@click.option("--json", "as_json", is_flag=True, help="Print the result for each job as JSON.")
def cancel(what: tuple[str, ...], settings: tuple[str, ...], as_json: bool) -> None:
    """Cancel jobs. The ranks have Slurm's KillWait seconds to save; no job is requeued.

    SPEC: all of your pending and running jobs of the spec; if points or ids follow, only these.
    POINT: an index, a range, a name, or a pattern such as '*lr=1e-3*'.

    If an argument is wrong, the other jobs are still cancelled.
    """
    known = known_jobs()
    if known is None:
        raise one_problem("there is no scancel here", hint="run it on the cluster's head node")
    choice = choose(what, known, settings)
    refused = cancel_recorded(
        {one.job_id: one.live for one in choice.jobs if one.live}, choice.folders
    )
    problems = [*choice.problems, *filter(None, (_problem(one, refused) for one in choice.jobs))]
    if as_json:
        jobs = [_data(one, refused) for one in choice.jobs]
        print_json({"jobs": jobs, "problems": [*map(problem_data, problems)]})
    else:
        for one in choice.jobs:
            if line := _line(one, refused):
                click.echo(printable(line))
        for spec in choice.idle:
            click.echo(f"you have no pending or running job of {spec}", err=True)
    if problems:
        if as_json:  # which has them
            raise click.exceptions.Exit(1)
        raise InputError(problems)


def _problem(one: Chosen, refused: dict[str, str]) -> Problem | None:
    if one.job_id in refused:
        return Problem(f"job {one.job_id} is not cancelled: {refused[one.job_id]}")
    if not one.tasks and not one.state:
        return Problem(f"no job {one.job_id} is in the queue", hint=one.hint)
    return None


def _line(one: Chosen, refused: dict[str, str]) -> str:
    """The result for a job; "" if it is a problem."""
    if _problem(one, refused):
        return ""
    if not one.live:
        return _ended(one)
    name = f"{', '.join(one.points)}: job {one.job_id}" if one.points else f"job {one.job_id}"
    if one.job_id not in (job.shown_id for job in one.live):
        return f"{name} is cancelled, with all tasks of its array ({_counts(one.live)})"
    (job,) = one.live
    since = f" since {job.start}" if job.start and _was(job) == "running" else ""
    return f"{name} is cancelled; it was {_was(job)}{since}"


def _ended(one: Chosen) -> str:
    if one.points:
        name = ", ".join(one.points)
        never = one.state == MISSING
        return f"{name} was never submitted" if never else f"{name} had already ended: {one.state}"
    states = Counter(job.state for job in one.tasks)
    return f"job {one.job_id} had already ended: {', '.join(states)}"


def _counts(tasks: tuple[Queued, ...]) -> str:
    counts = Counter(map(_was, tasks))
    return ", ".join(f"{counts[was]} {was}" for was in ("pending", "running") if counts[was])


def _was(job: Queued) -> str:
    return "pending" if job.state in WAITING else "running"


def _data(one: Chosen, refused: dict[str, str]) -> dict[str, Any]:
    was = Counter(map(_was, one.live))
    start = one.live[0].start if len(one.live) == 1 and was["running"] else ""
    return {
        "job_id": one.job_id,
        "points": list(one.points),
        "cancelled": bool(one.live) and one.job_id not in refused,
        "pending": was["pending"],
        "running": was["running"],
        "since": start,
        "state": one.state or ", ".join(Counter(job.state for job in one.tasks)),
    }
