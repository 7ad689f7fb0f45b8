"""The state of every point of a sweep: from its folders, the submissions, and Slurm's queue."""

from __future__ import annotations

import functools
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from clusterjobs.node.job.attempt_files import read_end
from clusterjobs.runs.jobs.folders import (
    NeededJob,
    Submission,
    content_of,
    digest_of,
    former_points,
    has_token,
    point_folders,
    point_jobs,
    read_submissions,
    start_time,
)
from clusterjobs.runs.jobs.records import NO_RECORD, Attempt, read_attempts, unrecorded_attempts
from clusterjobs.runs.jobs.unstarted import why_never_started
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.runs.submit.lock import sweep_folder
from clusterjobs.slurm.queue import Queued, by_id
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

WAITING = frozenset(  # Slurm's states of a job that waits for its start, or its next one
    ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
)


class QueuedJob(Protocol):
    """The fields of a job in the queue that `sweep_states` uses: see slurm/queue.py."""

    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def array_id(self) -> str: ...
    @property
    def array_index(self) -> str: ...
    @property
    def comment(self) -> str: ...


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


class _Task(NamedTuple):
    """A point's job in the queue. `is_packed`: it runs several points side by side."""

    job_id: str
    job: QueuedJob
    is_packed: bool = False


def sweep_states(
    sweep: pathlib.Path,
    points: Mapping[str, str],
    submissions: Sequence[Submission],
    queued: Mapping[str, QueuedJob] | None,
    ended: Mapping[str, QueuedJob] = MappingProxyType({}),
) -> dict[str, PointState]:
    """The state of each point. `points`: name -> content hash; "" to compare no content.

    `queued`: the jobs in the queue by id; None without Slurm. It must be read after `submissions`
    and before this call: a job that ends in between has written its record by now. `ended`: the
    jobs that Slurm still knows after their end, by id.
    """
    folders = point_folders(sweep)
    newest = _newest_submissions(submissions)
    tasks = _queued_tasks(submissions, queued or {})
    cancelled = _queued_tasks(
        submissions, {key: job for key, job in ended.items() if job.state == "CANCELLED"}
    )
    found = {}
    unmet = functools.cache(why_never_started)
    for name, content in points.items():
        digest = digest_of(name)
        jobs = point_jobs(folders.get(digest, ()))
        found[name] = _state(jobs, tasks.get(digest), newest.get(digest), queued, content, unmet)
        if found[name].reason == NOT_STARTED and _is_task_of(cancelled.get(digest), newest[digest]):
            found[name] = found[name]._replace(state=CANCELLED, reason=BEFORE_START)
    return found


def plain_state(
    jobs: Sequence[pathlib.Path],
    submissions: Sequence[Submission],
    queued: Mapping[str, QueuedJob] | None,
    content: str,
) -> PointState:
    """The state of a spec without a sweep: as that of a sweep's only point.

    `jobs`: the folders of its jobs, the newest last. `submissions`: its own.
    """
    task = next(reversed(_queued_tasks(submissions, queued or {}).values()), None)
    newest = next(reversed(_newest_submissions(submissions).values()), None)
    return _state(jobs, task, newest, queued, content, why_never_started)


def _state(
    jobs: Sequence[pathlib.Path],
    task: _Task | None,
    submission: Submission | None,
    queued: Mapping[str, QueuedJob] | None,
    content: str,
    unmet: Callable[[tuple[NeededJob, ...]], str],
) -> PointState:
    state = _in_queue(jobs, task, queued or {}, content)
    if state is None:
        state = _ended(jobs, submission, content)
        if queued is None and state.state == LOST:
            state = state._replace(state=UNKNOWN, reason="")
        elif state.reason == NOT_STARTED and submission and (why := unmet(submission.needs)):
            state = state._replace(state=CANCELLED, reason=why)
    return state


# ------------------------------------------------------------------ in the queue


def _queued_tasks(
    submissions: Sequence[Submission], queued: Mapping[str, QueuedJob]
) -> dict[str, _Task]:
    """The jobs in the queue by the digests of their points."""
    tasks: dict[tuple[str, str], _Task] = {}
    commented = []
    for job_id, job in queued.items():
        tasks[job.array_id or job_id, job.array_index] = _Task(job_id, job)
        if job.comment:
            commented.append((job.array_id or job_id, job.comment))
    found: dict[str, _Task] = {}
    for one in submissions:
        if one.job_id is not None:
            array = str(one.job_id)
        else:  # perhaps it was submitted, and not recorded
            array = next((job_id for job_id, said in commented if one.comment in said), "")
        for key, name in one.points.items():
            index, dot, _ = key.partition(".")
            task = tasks.get((array, index))
            # Another `submit` may have made it: a new cluster counts its jobs from 1, too.
            if task and (one.comment in task.job.comment or not has_token(task.job.comment)):
                found[digest_of(name)] = task._replace(is_packed=bool(dot))
    return found


def _is_task_of(task: _Task | None, submission: Submission) -> bool:
    return task is not None and (task.job.array_id or task.job_id) == str(submission.job_id)


def _in_queue(
    jobs: Sequence[pathlib.Path],
    task: _Task | None,
    queued: Mapping[str, QueuedJob],
    content: str,
) -> PointState | None:
    """None if no job of the point is in the queue."""
    folder = jobs[-1] if jobs else None
    if task is None:  # submitted with plain sbatch: its points are known once it has a folder
        running = next((job for job in reversed(jobs) if job.name in queued), None)
        if running is None:
            return None
        folder, task = running, _Task(running.name, queued[running.name])
    state = PENDING if task.job.state in WAITING else RUNNING
    if task.is_packed and folder and folder.name == task.job_id:
        ended = _recorded(folder, content)
        if ended.state in (COMPLETED, CHANGED) or (ended.attempt and state == RUNNING):
            return ended._replace(in_queue=True)
    return PointState(state, task.job.reason, task.job_id, folder, in_queue=True)


# ------------------------------------------------------------------ ended


def _newest_submissions(submissions: Iterable[Submission]) -> dict[str, Submission]:
    """Digest -> the last submission with that point, without incomplete intents."""
    return {
        digest_of(name): one
        for one in submissions
        for name in one.points.values()
        if one.job_id is not None
    }


def _ended(jobs: Sequence[pathlib.Path], submission: Submission | None, content: str) -> PointState:
    """The state of a point that is not in the queue."""
    folder = jobs[-1] if jobs else None
    if submission and (folder is None or _is_older(folder, submission)):
        return PointState(LOST, NOT_STARTED, str(submission.job_id))
    return PointState(MISSING) if folder is None else _recorded(folder, content)


def _recorded(folder: pathlib.Path, content: str) -> PointState:
    """The state from the job's own records."""
    attempts = read_attempts(_end(folder / "attempts.jsonl"))
    last = attempts[-1] if attempts else None
    if last and last.reason == "completed":
        same = not content or content_of(folder) in ("", content)
        return PointState(COMPLETED if same else CHANGED, "", folder.name, folder, last)
    if last is None or unrecorded_attempts(folder, attempts):
        return PointState(LOST, NO_RECORD, folder.name, folder, last)
    state = CANCELLED if last.reason == "cancelled" else FAILED
    return PointState(state, last.reason, folder.name, folder, last)


def _is_older(folder: pathlib.Path, submission: Submission) -> bool:
    """Whether the folder's job was submitted earlier: by its id, and by its time, since a new
    cluster counts its jobs from 1."""
    assert submission.job_id is not None
    return int(folder.name) < submission.job_id and start_time(folder) < submission.time


def _end(file: pathlib.Path) -> str:
    try:
        return read_end(str(file))
    except OSError:
        return ""


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

    @property
    def arrays(self) -> set[str]:
        """The ids of the jobs that were submitted."""
        return {str(one.job_id) for one in read_submissions(self.folder)}

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
