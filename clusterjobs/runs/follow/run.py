"""Submits a run, and follows its job or its points to the end."""

import pathlib
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import click

from clusterjobs.console import Say, printable, say_on_stderr
from clusterjobs.errors import one_problem
from clusterjobs.plugins import on_this_machine
from clusterjobs.runs.follow import one_job as polled_queue
from clusterjobs.runs.follow.interrupts import asks_before_it_stops, postponed_interrupts
from clusterjobs.runs.follow.one_job import FollowedJob, JobEnd, LogPrinter, PolledQueue, job_end
from clusterjobs.runs.jobs.logs_folder import logs_folder, sweep_folder
from clusterjobs.runs.jobs.patterns import points_matching
from clusterjobs.runs.jobs.states import (
    CANCELLED,
    COMPLETED,
    FAILED,
    LOST,
    PENDING,
    RUNNING,
    STATES,
    PointState,
    SweepJobs,
)
from clusterjobs.runs.jobs.unstarted import output_in_slurm
from clusterjobs.runs.run import Run
from clusterjobs.runs.status.job import no_record_note
from clusterjobs.runs.submit.needs import Needs, needs_of
from clusterjobs.runs.submit.one_spec import submit_run
from clusterjobs.runs.submit.points import SubmitOptions
from clusterjobs.runs.submit.report import job_line, needs_table, submission_text
from clusterjobs.slurm.jobs import in_words
from clusterjobs.slurm.queue import Queued, by_id

# ------------------------------------------------------------------ points
# Follows the points of a sweep, or the tasks of an array: a line for each change of a state.


_SHARE = 10  # reading the folders of all points takes at most 1/10 of the time


class Followed(Protocol):
    """A sweep, or an array: the states of all of its points or tasks, by name."""

    def states(self, jobs: Sequence[Queued] | None) -> Mapping[str, PointState]: ...


class FollowedPoints:
    """Points of a sweep, or tasks of an array. `names`: only these; None: all.

    `states`: from the last look.
    """

    def __init__(
        self,
        followed: Followed,
        queue: PolledQueue,
        names: Collection[str] | None = None,
        say: Say = say_on_stderr,
    ) -> None:
        self.followed, self.names, self._say = followed, names, say
        self.states: dict[str, PointState] = {}
        self._queue = queue
        self._waiting = ""

    def follow(self, timeout: float | None = None) -> bool:
        """Report changes until all points have ended, and return whether all have completed.

        Raises TimeoutError after `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            start = time.monotonic()
            self._look()
            if not self._live_points:
                break
            took = time.monotonic() - start
            pause = max(polled_queue.POLL_SECONDS, _SHARE * took)
            if end is not None and time.monotonic() + pause > end:
                raise TimeoutError(f"{self.counts()} after {timeout:g} s")
            time.sleep(pause)
        return all(state.state == COMPLETED for state in self.states.values())

    @property
    def _live_points(self) -> list[str]:
        """The points that are pending or running."""
        return [n for n, state in self.states.items() if state.state in (PENDING, RUNNING)]

    def live_jobs(self) -> dict[str, list[Queued]]:
        """Their jobs by the ids that scancel takes."""
        known = self._queue.jobs(now=True) or ()
        jobs = by_id(job for job in known if not job.has_ended)
        self.states = self._states()
        shown = {job.shown_id: job for job in jobs.values()}
        ids = [self.states[name].job_id for name in self._live_points]
        live = [jobs[one].shown_id if one in jobs else one for one in ids]
        return {one: [shown[one]] for one in live if one in shown}

    def counts(self) -> str:
        """`3 completed, 1 running`."""
        counts = Counter(state.state for state in self.states.values())
        return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])

    def _look(self) -> None:
        before, self.states = self.states, self._states()
        if any(
            state.state == LOST and before.get(name) != state for name, state in self.states.items()
        ):
            self._queue.jobs(now=True)  # somebody may have submitted it after the last squeue
            self.states = self._states()
        if not before:
            self._say(self.counts())
        for name, state in self.states.items():
            if name in before and before[name].state != state.state:
                self._say(f"{name}: {_in_words(state)} ({self.counts()})")
        self._say_why_nothing_runs()

    def _states(self) -> dict[str, PointState]:
        found = self.followed.states(self._queue.jobs())
        wanted = found if self.names is None else self.names
        return {name: state for name, state in found.items() if name in wanted}

    def _say_why_nothing_runs(self) -> None:
        reasons = Counter(self.states[name].reason for name in self._live_points)
        if any(state.state == RUNNING for state in self.states.values()) or not reasons:
            return
        reason = reasons.most_common(1)[0][0]
        if reason != self._waiting and reason not in ("", "None"):
            self._say(f"pending: {in_words(reason)}")
        self._waiting = reason


def _in_words(state: PointState) -> str:
    if state.state in (PENDING, RUNNING):
        return f"{state.state}, job {state.job_id}"
    code = state.attempt.exit_code if state.attempt else None
    shown = f", exit code {code}" if code else ""
    return f"{state.state}: {state.reason}{shown}" if state.reason else state.state


# ------------------------------------------------------------------ array tasks
# The tasks of a plain array of jobs, `sbatch: {array: 0-99}`, while they are followed.


class ArrayTasks:
    """The tasks of the array `array_id`, whose folders are `<logs>/<own id>`."""

    def __init__(self, array_id: str, logs: pathlib.Path) -> None:
        self.array_id, self.logs = array_id, logs
        self._last: dict[str, Queued] = {}

    def states(self, jobs: Sequence[Queued] | None) -> dict[str, PointState]:
        """The state of each task that Slurm knows or knew: `4711_3` -> state."""
        found = {job.shown_id: job for job in tasks_of(self.array_id, jobs or ())}
        self._last |= found
        return {
            name: _live(job) if name in found and not job.has_ended else self._ended(job)
            for name, job in self._last.items()
        }

    def _ended(self, job: Queued) -> PointState:
        folder = self.logs / job.job_id
        end = job_end(folder if folder.is_dir() else None, job)
        state = FAILED if end.exit_code else COMPLETED
        state = CANCELLED if end.reason == "cancelled" else state
        reason = "" if state == COMPLETED else f"{end.reason}, exit code {end.exit_code}"
        return PointState(state, reason, job.shown_id, folder)


def tasks_of(array_id: str, jobs: Sequence[Queued]) -> list[Queued]:
    """The tasks of the array; none if the id is that of a plain job."""
    return [job for job in jobs if job.array_id == array_id and job.array_index]


def _live(job: Queued) -> PointState:
    state = PENDING if job.state == "PENDING" else RUNNING
    return PointState(state, job.reason, job.shown_id)


class RunEnd(NamedTuple):
    """`exit_code`: the job's own; of a sweep or an array, 0 if all points have completed.

    `states`: of the points, the tasks, or the job, by name: `completed`, or why not.
    """

    exit_code: int
    job_ids: Sequence[str]
    states: Mapping[str, str]


def run_to_the_end(run: Run, output: pathlib.Path, force: bool, options: SubmitOptions) -> RunEnd:
    """Submit the run, and follow it until all of it has ended.

    Raises InputError.
    """
    follow = _run_points if run.sweep else _run_job
    return follow(run, output, force, options)


def _run_job(run: Run, output: pathlib.Path, force: bool, options: SubmitOptions) -> RunEnd:
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
                lambda: _in_queue(job_id, queue),
                logs,
                f"to follow it: clusterjobs logs {run.file} {job_id} --follow",
                f"to cancel it: clusterjobs cancel {job_id}",
            )
        if tasks_of(job_id, queue.jobs() or ()):
            return _points_end(FollowedPoints(ArrayTasks(job_id, logs), queue), [job_id])
        end = _follow_job(run.file, job_id, logs, queue)
        return RunEnd(end.exit_code, [job_id], {run.name: end.reason})


def _points_end(points: FollowedPoints, job_ids: Sequence[str]) -> RunEnd:
    code = 0 if points.follow() else 1
    return RunEnd(code, job_ids, {name: one.state for name, one in points.states.items()})


def _say_needs(needs: Needs | None) -> None:
    if needs and needs.rows:
        _say(needs_table(needs.rows))


def _follow_job(spec: pathlib.Path, job_id: str, logs: pathlib.Path, queue: PolledQueue) -> JobEnd:
    job = FollowedJob(job_id, logs, LogPrinter, queue)
    end = job.follow()
    if not job.log and (printed := output_in_slurm(job_id, on_this_machine)):
        LogPrinter(printed).finish()  # it ended before it had a folder
    if end.no_record:
        _say(no_record_note(job_id, end.no_record, str(spec)))
    _say(end.said(job_id))
    return end


def _in_queue(job_id: str, queue: PolledQueue) -> dict[str, list[Queued]]:
    """The job's id with its tasks, as long as it has not ended."""
    jobs = queue.jobs(now=True) or ()
    live = [job for job in jobs if job_id in (job.job_id, job.array_id) and not job.has_ended]
    return {job_id: live} if live else {}


def _run_points(run: Run, output: pathlib.Path, force: bool, options: SubmitOptions) -> RunEnd:
    indexes, patterns = run.indexes, options.patterns
    names = points_matching(patterns, indexes) if patterns else tuple(indexes)
    sweep = SweepJobs(run.file, sweep_folder(run.spec), indexes)
    points = FollowedPoints(sweep, PolledQueue(), names)
    needs = needs_of(run, output, force, options.sbatch)
    with asks_before_it_stops() as submitted:
        submitted.set(
            f"the jobs of {run.file}",
            points.live_jobs,
            sweep.folder,
            f"to see their states: clusterjobs status {run.file} --points",
            f"to cancel them: clusterjobs cancel {run.file}",
        )
        done = submit_run(run, output, force, options, lambda job: _say(job_line(job)), needs)
        _say_needs(needs)
        _say(submission_text(done))
        ids = [str(job.job_id) for job in done.jobs if job.job_id is not None]
        return _points_end(points, ids)


def _say(line: str) -> None:
    """Print a message on stderr, since stdout is for the log."""
    click.echo(printable(line, kept="\n"), err=True)
