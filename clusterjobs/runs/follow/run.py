"""Submits a run, and follows its job or its points to the end."""

from __future__ import annotations

import pathlib

import click

from clusterjobs.console.show import printable
from clusterjobs.errors import one_problem
from clusterjobs.runs.choose_jobs import points_matching
from clusterjobs.runs.follow.interrupts import asks_before_it_stops, postponed_interrupts
from clusterjobs.runs.follow.one_job import FollowedJob, LogPrinter, PolledQueue
from clusterjobs.runs.follow.points import ArrayTasks, FollowedPoints, tasks_of
from clusterjobs.runs.job_folders import logs_folder
from clusterjobs.runs.lab_paths import on_this_machine
from clusterjobs.runs.run import Run
from clusterjobs.runs.states import SweepJobs
from clusterjobs.runs.status.job import no_record_note
from clusterjobs.runs.submit.lock import sweep_folder
from clusterjobs.runs.submit.needs import Needs, needs_of
from clusterjobs.runs.submit.one_spec import submit_run
from clusterjobs.runs.submit.points import SubmitOptions
from clusterjobs.runs.submit.report import job_line, needs_table, submission_text
from clusterjobs.runs.unstarted import output_in_slurm


def run_to_the_end(run: Run, output: pathlib.Path, force: bool, options: SubmitOptions) -> int:
    """The exit code: the job's own; of a sweep or an array, 0 if all points have completed.

    Raises InputError.
    """
    follow = _run_points if run.sweep else _run_job
    return follow(run, output, force, options)


def _run_job(run: Run, output: pathlib.Path, force: bool, options: SubmitOptions) -> int:
    logs = logs_folder(run.spec.logs.path)
    queue = PolledQueue()
    with asks_before_it_stops() as submitted:
        with postponed_interrupts(lambda: _say("sbatch is running: stopping after its answer")):
            needs = needs_of(run, output, force, options.sbatch)
            (job,) = submit_run(run, output, force, options, needs=needs).jobs
            _say_needs(needs)
            if job.job_id is None:
                what = "sbatch accepted the job but printed no job id, so it cannot be followed"
                raise one_problem(what)
            job_id = str(job.job_id)
            _say(f"submitted job {job_id}")
            submitted.set(
                f"job {job_id}",
                lambda: _live(job_id, queue),
                f"to follow it: clusterjobs logs {run.file} {job_id} --follow",
                f"to cancel it: clusterjobs cancel {job_id}",
            )
        if tasks_of(job_id, queue.jobs() or ()):
            points = FollowedPoints(ArrayTasks(job_id, logs), queue)
            return 0 if points.follow() else 1
        return _follow_job(run.file, job_id, logs, queue)


def _say_needs(needs: Needs | None) -> None:
    if needs and needs.rows:
        _say(needs_table(needs.rows))


def _follow_job(spec: pathlib.Path, job_id: str, logs: pathlib.Path, queue: PolledQueue) -> int:
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


def _run_points(run: Run, output: pathlib.Path, force: bool, options: SubmitOptions) -> int:
    indexes, patterns = run.indexes, options.patterns
    names = points_matching(patterns, indexes) if patterns else tuple(indexes)
    sweep = SweepJobs(run.file, sweep_folder(run.spec), indexes)
    points = FollowedPoints(sweep, PolledQueue(), names)
    needs = needs_of(run, output, force, options.sbatch)
    with asks_before_it_stops() as submitted:
        submitted.set(
            f"the jobs of {run.file}",
            points.live_jobs,
            f"to see their states: clusterjobs status {run.file} --points",
            f"to cancel them: clusterjobs cancel {run.file}",
        )
        done = submit_run(run, output, force, options, lambda job: _say(job_line(job)), needs)
        _say_needs(needs)
        _say(submission_text(done))
        return 0 if points.follow() else 1


def _say(line: str) -> None:
    """On stderr: stdout is for the log."""
    click.echo(printable(line, kept="\n"), err=True)
