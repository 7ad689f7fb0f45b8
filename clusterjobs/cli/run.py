"""clusterjobs run: submits a spec, and follows its job or its points to the end."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from clusterjobs.console.options import submit_options
from clusterjobs.console.show import printable
from clusterjobs.errors import one_problem
from clusterjobs.runs.pipeline import Project, load

if TYPE_CHECKING:
    from clusterjobs.runs.follow.one_job import PolledQueue
    from clusterjobs.runs.submit.needs import Needs
    from clusterjobs.runs.submit.points import SubmitOptions
    from clusterjobs.runs.sweep_project import SweepProject


_EXAMPLES = """\b
Examples:
  clusterjobs run exp.yaml
  clusterjobs run exp.yaml --set nodes=4 -- --dependency=afterok:123
  clusterjobs run sweep.yaml --points 3,7-9
"""


@click.command(epilog=_EXAMPLES)
@submit_options
@click.argument("sbatch_options", nargs=-1, type=click.UNPROCESSED)
def run(
    spec: pathlib.Path,
    output: pathlib.Path,
    settings: tuple[str, ...],
    force: bool,
    patterns: tuple[str, ...],
    failed: bool,
    completed: bool,
    yes: bool,
    sbatch_options: tuple[str, ...],
) -> None:
    """Submit SPEC and follow the job until it ends: why it waits, its log, how it ended.

    The exit code is the job's. For a sweep or an array, it prints a line for each change of a
    point's state, and the exit code is 0 if all points have completed, else 1.

    Ctrl-C asks whether to cancel the job; a second Ctrl-C leaves it running. SBATCH_OPTIONS follow
    `--`.
    """
    from clusterjobs.runs.submit.points import SubmitOptions

    project = load(spec, settings)
    if not isinstance(project, Project):
        options = SubmitOptions(patterns, completed, failed, yes, sbatch_options)
        raise click.exceptions.Exit(_run_sweep(spec, project, output, force, options))
    if patterns or failed or completed:
        raise click.UsageError(f"--points, --failed, --all: {spec} has no sweep")
    raise click.exceptions.Exit(run_job(spec, project, output, force, sbatch_options))


# ------------------------------------------------------------------ a job, or an array


def run_job(
    spec: pathlib.Path,
    project: Project,
    output: pathlib.Path,
    force: bool,
    sbatch_options: tuple[str, ...],
) -> int:
    """The job's exit code."""
    from clusterjobs.runs.follow.interrupts import asks_before_it_stops, postponed_interrupts
    from clusterjobs.runs.follow.one_job import PolledQueue
    from clusterjobs.runs.follow.points import ArrayTasks, FollowedPoints, tasks_of
    from clusterjobs.runs.job_folders import logs_folder
    from clusterjobs.spec.references import as_text

    logs = logs_folder(as_text(project.spec.experiment.logs.path))
    queue = PolledQueue()
    with asks_before_it_stops() as submitted:
        with postponed_interrupts(lambda: _say("sbatch is running: stopping after its answer")):
            job_id = _submit(project, output, force, sbatch_options)
            submitted.set(
                f"job {job_id}",
                lambda: _live(job_id, queue),
                f"to follow it: clusterjobs logs {spec} {job_id} --follow",
                f"to cancel it: clusterjobs cancel {job_id}",
            )
        if tasks_of(job_id, queue.jobs() or ()):
            points = FollowedPoints(ArrayTasks(job_id, logs), queue)
            return 0 if points.follow() else 1
        return _follow_job(spec, job_id, logs, queue)


def _submit(
    project: Project, output: pathlib.Path, force: bool, sbatch_options: tuple[str, ...]
) -> str:
    """The id of the job. Raises InputError."""
    from clusterjobs.runs.submit.one_spec import needs_of, submit_job

    needs = needs_of(project, output, force, sbatch_options)
    job = submit_job(project, output, force, sbatch_options, needs)
    _say_needs(needs)
    if job.job_id is None:
        raise one_problem("sbatch accepted the job but printed no job id, so it cannot be followed")
    _say(f"submitted job {job.job_id}")
    return str(job.job_id)


def _say_needs(needs: Needs | None) -> None:
    from clusterjobs.runs.submit.report import needs_table

    if needs and needs.rows:
        _say(needs_table(needs.rows))


def _follow_job(spec: pathlib.Path, job_id: str, logs: pathlib.Path, queue: PolledQueue) -> int:
    from clusterjobs.runs.follow.one_job import FollowedJob, LogPrinter
    from clusterjobs.runs.lab_paths import on_this_machine
    from clusterjobs.runs.status.job import no_record_note
    from clusterjobs.runs.unstarted import output_in_slurm

    job = FollowedJob(job_id, logs, LogPrinter, queue)
    end = job.follow()
    if not job.log and (printed := output_in_slurm(job_id, on_this_machine)):
        LogPrinter(printed).finish()  # it ended before it had a folder
    if end.no_record:
        _say(no_record_note(job_id, end.no_record, str(spec)))
    _say(end.said(job_id))
    return end.exit_code


def _live(job_id: str, queue: PolledQueue) -> list[str]:
    """The job's id, as long as it has not ended."""
    jobs = queue.jobs(now=True) or ()
    live = [job for job in jobs if job_id in (job.job_id, job.array_id) and not job.has_ended]
    return [job_id] if live else []


# ------------------------------------------------------------------ a sweep


def _run_sweep(
    spec: pathlib.Path,
    project: SweepProject,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
) -> int:
    """0 if all chosen points have completed."""
    from clusterjobs.runs.choose_jobs import points_matching
    from clusterjobs.runs.follow.interrupts import asks_before_it_stops
    from clusterjobs.runs.follow.one_job import PolledQueue
    from clusterjobs.runs.follow.points import FollowedPoints
    from clusterjobs.runs.states import SweepJobs
    from clusterjobs.runs.submit.lock import sweep_folder
    from clusterjobs.runs.submit.one_spec import needs_of, submit_points
    from clusterjobs.runs.submit.report import job_line, submission_text

    indexes = {one.point.name: one.point.index for one in project.points}
    names = points_matching(options.patterns, indexes) if options.patterns else tuple(indexes)
    sweep = SweepJobs(spec, sweep_folder(project.experiment), indexes)
    points = FollowedPoints(sweep, PolledQueue(), names)
    needs = needs_of(project, output, force, options.sbatch)
    with asks_before_it_stops() as submitted:
        submitted.set(
            f"the jobs of {spec}",
            points.live_jobs,
            f"to see their states: clusterjobs status {spec} --points",
            f"to cancel them: clusterjobs cancel {spec}",
        )
        done = submit_points(
            project, output, force, options, lambda job: _say(job_line(job)), needs
        )
        _say_needs(needs)
        _say(submission_text(done))
        return 0 if points.follow() else 1


def _say(line: str) -> None:
    """On stderr: stdout is for the log."""
    click.echo(printable(line, kept="\n"), err=True)
