"""The state of every point of a sweep: from its folders, the submissions, and Slurm's queue."""

import functools
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from clusterjobs.runs.jobs.folders import (
    NeededJob,
    Submission,
    content_of,
    digest_of,
    former_points,
    point_folders,
    point_jobs,
    read_submissions,
    start_time,
)
from clusterjobs.runs.jobs.identity import is_of_folder, is_of_submission, tasks_by_token, with_ids
from clusterjobs.runs.jobs.logs_folder import sweep_folder
from clusterjobs.runs.jobs.records import (
    NO_RECORD,
    OF_SLURM,
    Attempt,
    read_attempts,
    records_in,
    unrecorded_attempts,
)
from clusterjobs.runs.jobs.unstarted import why_never_started
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.slurm.queue import WAITING, Queued, by_id
from clusterjobs.spec.load import LoadedSpec

COMPLETED, RUNNING, PENDING = "completed", "running", "pending"
FAILED, CANCELLED, LOST = "failed", "cancelled", "lost"
MISSING, CHANGED, UNKNOWN = "missing", "changed", "unknown"
STATES = (
    *(COMPLETED, RUNNING, PENDING, FAILED, CANCELLED, LOST),
    *(MISSING, CHANGED, UNKNOWN),
)
NOT_STARTED = "its job ended before it started"
BEFORE_START = "before it started"  # of a point that was cancelled


class PointState(NamedTuple):
    """The state of one point, one of STATES, and the reason: Slurm's, or that of its last attempt.

    `job_id`: the newest job, as in the name of its folder; of a pending task `4711_7`. `folder`:
    its folder; None if it has none. `attempt`: its last record. `in_queue`: whether that job has
    not ended; a point of a packed job may have ended before.
    """

    state: str
    reason: str = ""
    job_id: str = ""
    folder: pathlib.Path | None = None
    attempt: Attempt | None = None
    in_queue: bool = False

    @property
    def why_submitted(self) -> str:
        """Why a job with this state is submitted: `it failed (time_limit)`."""
        text = _WHY_SUBMITTED.get(self.state, f"it is {self.state}")
        return f"{text} ({self.reason})" if self.reason not in ("", self.state, "failure") else text


_WHY_SUBMITTED = {
    FAILED: "it failed",
    CANCELLED: "it was cancelled",
    LOST: "its job is lost",
    MISSING: "it has not run yet",
    CHANGED: "its spec has changed",
}


class _Task(NamedTuple):
    """The task that was submitted last for a point. `array_index`: "" for a single job.

    `is_packed`: it runs several points side by side. `job`: in the queue, or after its end, by the
    id `job_id`; None if Slurm does not know it.
    """

    submission: Submission
    array_index: str
    is_packed: bool
    job_id: str = ""
    job: Queued | None = None

    @property
    def is_queued(self) -> bool:
        return self.job is not None and not self.job.has_ended

    @property
    def end(self) -> str:
        """Why it ended, of a task that has left no record; "" if nobody knows."""
        if self.array_index in self.submission.cancelled:
            return CANCELLED
        return OF_SLURM.get(self.job.state, "") if self.job else ""


def sweep_states(
    sweep: pathlib.Path,
    points: Mapping[str, str],
    submissions: Sequence[Submission],
    queued: Mapping[str, Queued] | None,
    ended: Mapping[str, Queued] = MappingProxyType({}),
) -> dict[str, PointState]:
    """The state of each point. `points`: name -> content hash; "" to compare no content.

    `queued`: the jobs in the queue by id; None without Slurm. It must be read after `submissions`
    and before this call: a job that ends in between has written its record by now. `ended`: the
    jobs that Slurm still knows after their end, by id.
    """
    folders = point_folders(sweep)
    tasks = _tasks(submissions, queued or {}, ended)
    look = _Look(submissions, queued, functools.cache(why_never_started))
    return {
        name: _state(
            point_jobs(folders.get(digest_of(name), ())), tasks.get(digest_of(name)), content, look
        )
        for name, content in points.items()
    }


def plain_state(
    jobs: Sequence[pathlib.Path],
    submissions: Sequence[Submission],
    queued: Mapping[str, Queued] | None,
    content: str,
    ended: Mapping[str, Queued] = MappingProxyType({}),
) -> PointState:
    """The state of a spec without a sweep: as that of a sweep's only point.

    `jobs`: the folders of its jobs, the newest last. `submissions`: its own.
    """
    task = next(reversed(_tasks(submissions, queued or {}, ended).values()), None)
    return _state(jobs, task, content, _Look(submissions, queued, why_never_started))


class _Look(NamedTuple):
    """What the states of all points are derived from."""

    submissions: Sequence[Submission]
    queued: Mapping[str, Queued] | None
    unmet: Callable[[tuple[NeededJob, ...]], str]


def _state(
    jobs: Sequence[pathlib.Path], task: _Task | None, content: str, look: _Look
) -> PointState:
    state = _in_queue(jobs, task, look, content)
    if state is None:
        state = _ended(jobs, task, content)
        if state.state == LOST and task and state.reason == NOT_STARTED:
            state = _not_started(state, task, look)
        elif state.state == LOST and task and task.end and task.job_id in (state.job_id, ""):
            state = state._replace(state=_of_end(task.end), reason=task.end)
        if look.queued is None and state.state == LOST:
            state = state._replace(state=UNKNOWN, reason="")
    return state


def _of_end(reason: str) -> str:
    return CANCELLED if reason == CANCELLED else FAILED


def _not_started(state: PointState, task: _Task, look: _Look) -> PointState:
    """Why the job of a point has left no folder."""
    if task.end:
        why = BEFORE_START if task.end == CANCELLED else task.end
        return state._replace(state=_of_end(task.end), reason=why)
    if look.queued is not None and (why := look.unmet(task.submission.needs)):
        return state._replace(state=CANCELLED, reason=why)
    return state


# ------------------------------------------------------------------ in the queue


def _tasks(
    submissions: Sequence[Submission], queued: Mapping[str, Queued], ended: Mapping[str, Queued]
) -> dict[str, _Task]:
    """The task that was submitted last for each point, by the points' digests.

    One in the queue counts more than a newer one that is not: it may still run.
    """
    jobs = {**ended, **queued}
    known = with_ids(submissions, jobs.values())
    by_token = tasks_by_token(known, jobs)
    found: dict[str, _Task] = {}
    for one in known:
        if one.job_id is None:
            continue  # Slurm does not have it
        for key, name in one.points.items():
            index, dot, _ = key.partition(".")
            job_id, job = by_token.get(one.token, {}).get(index, ("", None))
            task = _Task(one, index, bool(dot), job_id, job)
            before = found.get(digest_of(name))
            if task.is_queued or before is None or not before.is_queued:
                found[digest_of(name)] = task
    return found


def _in_queue(
    jobs: Sequence[pathlib.Path], task: _Task | None, look: _Look, content: str
) -> PointState | None:
    """The state of the point's job in the queue; None if it has no job there."""
    folder = jobs[-1] if jobs else None
    if task is None or task.job is None or not task.is_queued:
        # Submitted with plain sbatch: its points are known once it has a folder.
        queued = look.queued or {}
        for path in reversed(jobs):
            job = queued.get(path.name)
            if job and is_of_folder(job, path, look.submissions):
                state = PENDING if job.state in WAITING else RUNNING
                return PointState(state, job.reason, path.name, path, in_queue=True)
        return None
    state = PENDING if task.job.state in WAITING else RUNNING
    if task.is_packed and folder and folder.name == task.job_id:
        ended = _recorded(folder, content)
        if ended.state in (COMPLETED, CHANGED) or (ended.attempt and state == RUNNING):
            return ended._replace(in_queue=True)
    return PointState(state, task.job.reason, task.job_id, folder, in_queue=True)


# ------------------------------------------------------------------ ended


def _ended(jobs: Sequence[pathlib.Path], task: _Task | None, content: str) -> PointState:
    """The state of a point that is not in the queue."""
    folder = jobs[-1] if jobs else None
    if task and (folder is None or _is_older(folder, task.submission)):
        return PointState(LOST, NOT_STARTED, str(task.submission.job_id))
    return PointState(MISSING) if folder is None else _recorded(folder, content)


def _recorded(folder: pathlib.Path, content: str) -> PointState:
    """The state from the job's own records."""
    attempts = read_attempts(records_in(folder / "attempts.jsonl"))
    last = attempts[-1] if attempts else None
    if last and last.reason == "completed":
        same = not content or content_of(folder) in ("", content)
        return PointState(COMPLETED if same else CHANGED, "", folder.name, folder, last)
    if last is None or unrecorded_attempts(folder, attempts):
        return PointState(LOST, NO_RECORD, folder.name, folder, last)
    return PointState(_of_end(last.reason), last.reason, folder.name, folder, last)


def _is_older(folder: pathlib.Path, submission: Submission) -> bool:
    """Whether the folder's job was submitted earlier: by its id, and by its time, since a new
    cluster counts its jobs from 1."""
    assert submission.job_id is not None
    return int(folder.name) < submission.job_id and start_time(folder) < submission.time


# ------------------------------------------------------------------ resume
# Which points of a sweep are submitted, and why the others are not. Pure.


_TO_RUN = frozenset((MISSING, FAILED, CANCELLED, LOST, CHANGED))  # without a result of this spec
_FAILED = frozenset((FAILED, LOST))


class Wanted(NamedTuple):
    """The options of `submit`. `names`: only these points; None: all.

    `completed`: also points with a result. `failed`: only points that failed or are lost.
    """

    names: Collection[str] | None = None
    completed: bool = False
    failed: bool = False


def points_to_submit(states: Mapping[str, PointState], wanted: Wanted) -> tuple[str, ...]:
    """The names of the points to submit, in their order. Never one that is in the queue."""
    names = states if wanted.names is None else wanted.names
    chosen = {*_FAILED} if wanted.failed else {*_TO_RUN}
    if wanted.completed:
        chosen.add(COMPLETED)
    return tuple(
        name
        for name, one in states.items()
        if name in names and one.state in chosen and not one.in_queue
    )


def counts_in_words(states: Iterable[PointState]) -> str:
    """`9 completed, 2 running, 1 failed`; "no points" if there are none."""
    counts = Counter(one.state for one in states)
    return ", ".join(f"{counts[one]:,} {one}" for one in STATES if counts[one]) or "no points"


# ------------------------------------------------------------------ jobs
# The names, states and jobs of a sweep's points, for `logs`, `cancel` and `run`.


_INDEX = re.compile("[0-9]{1,9}-")  # what begins the name of a point


class SweepJobs(NamedTuple):
    """A sweep: its folder, and the index of each point by its name.

    Submitted points that the spec no longer has come first.
    """

    spec: pathlib.Path
    folder: pathlib.Path
    points: dict[str, int]

    def states(self, jobs: Sequence[Queued] | None) -> dict[str, PointState]:
        """The state of each point. `jobs`: what Slurm knows; None without Slurm."""
        submissions = read_submissions(self.folder)
        queued = None if jobs is None else by_id(job for job in jobs if not job.has_ended)
        ended = by_id(job for job in jobs or () if job.has_ended)
        points = dict.fromkeys(self.points, "")
        return sweep_states(self.folder, points, submissions, queued, ended)

    def ownership(self) -> Callable[[Queued], bool]:
        """Whether a job is one of this sweep, by what is recorded now."""
        submissions, folders = read_submissions(self.folder), point_folders(self.folder)
        paths = {path.name: path for jobs in folders.values() for path in point_jobs(jobs)}

        def owns(job: Queued) -> bool:
            path = paths.get(job.job_id)
            return any(is_of_submission(job, one) for one in submissions) or (
                path is not None and is_of_folder(job, path, submissions)
            )

        return owns

    def point_with_job(self, job_id: str, states: dict[str, PointState]) -> str | None:
        """The name of the point that this job runs."""
        folders = point_folders(self.folder)
        for name, state in states.items():
            jobs = point_jobs(folders.get(digest_of(name), ()))
            if job_id == state.job_id or any(job.name == job_id for job in jobs):
                return name
        return None


def sweep_jobs(
    spec: pathlib.Path, settings: Sequence[str] = ()
) -> tuple[LoadedSpec, SweepJobs | None]:
    """The spec, or its first point, and its sweep, if it has one. Raises InputError."""
    specs = SpecFiles(spec).load_points(settings)
    if specs[0].point is None:
        return specs[0], None
    folder = sweep_folder(specs[0].spec)
    points = {one.point.name: one.point.index for one in specs if one.point}
    former = {
        name: int(name.partition("-")[0])
        for name in former_points(read_submissions(folder), points)
        if _INDEX.match(name)
    }
    return specs[0], SweepJobs(spec, folder, {**former, **points})
