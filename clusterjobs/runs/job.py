"""A run that was submitted: the states of its points, their logs and results."""

import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusterjobs.console import Say
from clusterjobs.errors import one_problem
from clusterjobs.plugins import PlannedJob, read_run
from clusterjobs.runs.follow.one_job import PolledQueue, job_with_id
from clusterjobs.runs.follow.run import ArrayTasks, Followed, FollowedPoints
from clusterjobs.runs.jobs.folders import Submission
from clusterjobs.runs.jobs.identity import token_of
from clusterjobs.runs.jobs.logs_folder import logs_folder, sweep_folder
from clusterjobs.runs.jobs.states import (
    CANCELLED,
    CHANGED,
    COMPLETED,
    FAILED,
    LOST,
    MISSING,
    PENDING,
    RUNNING,
    STATES,
    UNKNOWN,
    PointState,
    SweepJobs,
    plain_state,
)
from clusterjobs.runs.results import read_result
from clusterjobs.runs.run import Run
from clusterjobs.sections.context import PointPlan
from clusterjobs.slurm.queue import Queued, by_id, known_jobs

# The state of several points is the first of these that one of them has.
_ORDER = (RUNNING, PENDING, FAILED, LOST, CANCELLED, CHANGED, MISSING, UNKNOWN, COMPLETED)


@dataclass(frozen=True)
class JobPoint:
    """A point of a submitted run, as it was when it was looked up.

    `state`: completed, running, pending, failed, cancelled, lost, missing, changed or unknown; as
    in `clusterjobs status`. `reason`: Slurm's for a pending point, else why the last attempt ended;
    None if there is nothing to say: it runs, or has completed. `values`: the swept keys with their
    values. `job_id`: as Slurm names it, `4711_3` for a pending task of an array; "" if the point
    was never submitted. `exit_code`: of the last attempt; None if it is unknown. `folder`: of the
    newest job on this machine; None before it has started.
    """

    name: str
    index: int
    values: Mapping[str, Any]
    state: str
    reason: str | None
    job_id: str
    exit_code: int | None
    folder: pathlib.Path | None
    _planned: PlannedJob = field(repr=False, compare=False)

    @property
    def log(self) -> str:
        """The text of the log of all attempts so far; "" before the job has started."""
        file = self.folder and self.folder / "job.log"
        return file.read_text(encoding="utf-8", errors="replace") if file and file.exists() else ""

    @property
    def result(self) -> Mapping[str, Any]:
        """What the program of a completed point has written to $CLUSTERJOBS_RESULT.

        Keys of nested objects are joined by dots. Empty for a point that has not completed, or
        wrote nothing. Raises InputError for a file that cannot be read.
        """
        found = read_result(self.folder) if self.folder and self.state == COMPLETED else None
        if found and found.problem:
            raise one_problem(f"{self.name}: {found.problem}")
        return found.values if found else {}

    def report(self) -> Mapping[str, Any]:
        """What it has achieved so far, by its log: speed, efficiency, loss, lost time and cost.

        The keys are those of a run in `clusterjobs report --json`; a value that is unknown is None.
        Raises InputError before the job has a log.
        """
        if self.folder is None or not (self.folder / "job.log").exists():
            raise one_problem(f"{self.name} has no log yet: it is {self.state}")
        return read_run(self.folder / "job.log", self._planned, self.folder)


class Job:
    """The job of a submitted run; of a sweep, the jobs of all of its points.

    `ids`: those that sbatch gave; none if nothing had to be submitted. Properties ask Slurm once,
    and read the folders of the jobs, each time they are used. They raise InputError if Slurm's
    controller does not answer.
    """

    def __init__(self, run: Run, ids: Sequence[str], names: Sequence[str], say: Say) -> None:
        """`ids`: of the submitted jobs. `names`: of the points that belong to the job."""
        self.ids = tuple(ids)
        self._run, self._say = run, say
        points = {one.name: one for one in run.points}
        self._points = {name: points[name] for name in names}
        self._followed: Followed
        if run.sweep:
            self._followed = SweepJobs(run.file, sweep_folder(run.spec), run.indexes)
        else:
            self._followed = PlainJob(run.name, self.ids[0], logs_folder(run.spec.logs.path))

    def __repr__(self) -> str:
        return f"<Job of {self._run.name}: {', '.join(self.ids) or 'nothing submitted'}>"

    @property
    def points(self) -> tuple[JobPoint, ...]:
        """The job's points in the order of the spec; without a sweep, the job itself."""
        return self._looked_up(self._followed.states(known_jobs()))

    @property
    def counts(self) -> dict[str, int]:
        """State -> number of points, without states that no point has."""
        found = Counter(one.state for one in self.points)
        return {state: found[state] for state in STATES if found[state]}

    @property
    def state(self) -> str:
        """`running` or `pending` while a point is; `completed` if all have completed.

        Else the state of a point that has not: failed, lost, cancelled, changed or missing.
        """
        return _joined(self.points)

    @property
    def log(self) -> str:
        """The text of the job's log. Raises InputError for a sweep: each of its points has one."""
        return self._only_point().log

    @property
    def result(self) -> Mapping[str, Any]:
        """What its program has written: see `JobPoint.result`. Raises InputError for a sweep."""
        return self._only_point().result

    def report(self) -> Mapping[str, Any]:
        """What the job has achieved: see `JobPoint.report`. Raises InputError for a sweep."""
        return self._only_point().report()

    def wait(self, timeout: float | None = None) -> str:
        """Wait until no point is pending or running, and return the state.

        `timeout` is in seconds; after it, TimeoutError is raised and the job runs on. Slurm is
        asked every 2 to 15 seconds. Each change of a state is logged (`logging`, level INFO).
        """
        names = self._points if self._run.sweep else None
        points = FollowedPoints(self._followed, PolledQueue(self._say), names, self._say)
        points.follow(timeout)
        return _joined(self._looked_up(points.states))

    def _looked_up(self, states: Mapping[str, PointState]) -> tuple[JobPoint, ...]:
        if self._run.sweep:
            planned = dict(zip(self._run.indexes, self._run.planned_jobs, strict=True))
            return tuple(
                _point(name, one, states[name], planned[name]) for name, one in self._points.items()
            )
        (point,), (job,) = self._run.points, self._run.planned_jobs
        return tuple(_point(name, point, state, job) for name, state in states.items())

    def _only_point(self) -> JobPoint:
        first, *others = self.points
        if others:
            raise one_problem(
                f"{self._run.name} has {len(others) + 1} points, each with a log of its own",
                hint="for point in job.points: print(point.log, point.result)",
            )
        return first


def _joined(points: Sequence[JobPoint]) -> str:
    """The first of the points' states in the order that `Job.state` explains."""
    return min((one.state for one in points), key=_ORDER.index, default=COMPLETED)


def _point(name: str, point: PointPlan, state: PointState, planned: PlannedJob) -> JobPoint:
    return JobPoint(
        name,
        point.index,
        point.values,
        state.state,
        None if state.reason in ("", "None") else state.reason,
        state.job_id,
        state.attempt.exit_code if state.attempt else None,
        state.folder,
        planned,
    )


class PlainJob:
    """The job of a run without a sweep, whose folder is `<logs>/<its id>`; or an array of them."""

    def __init__(self, name: str, job_id: str, logs: pathlib.Path) -> None:
        self.name, self.job_id, self.folder = name, job_id, logs / job_id
        self._tasks = ArrayTasks(job_id, logs)
        self._token = ""  # of its submission, once Slurm has shown the job

    def states(self, jobs: Sequence[Queued] | None) -> Mapping[str, PointState]:
        """The state of the job, or of each task that Slurm knows or knew, by `4711_3`."""
        if tasks := self._tasks.states(jobs):
            return tasks
        job = job_with_id(self.job_id, jobs or ())
        self._token = self._token or (token_of(job) if job else "")
        submitted = Submission(
            self._token, int(self.job_id), "", 0, "", array=False, points={"": self.name}
        )
        queued = None if jobs is None else by_id(one for one in jobs if not one.has_ended)
        ended = by_id(one for one in jobs or () if one.has_ended)
        folders = [self.folder] if self.folder.is_dir() else []
        return {self.name: plain_state(folders, (submitted,), queued, "", ended)}
