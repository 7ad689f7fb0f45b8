"""The states of the jobs of a spec that others need, with or without a sweep."""

import os
import pathlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.errors import InputError, one_problem
from clusterjobs.runs.content import OwnConfigs
from clusterjobs.runs.jobs.find import submissions_of
from clusterjobs.runs.jobs.folders import (
    JobFolder,
    NeededJob,
    Submission,
    digest_of,
    job_folders,
    read_submissions,
)
from clusterjobs.runs.jobs.logs_folder import logs_folder, sweep_folder
from clusterjobs.runs.jobs.records import read_folder
from clusterjobs.runs.jobs.states import (
    CANCELLED,
    CHANGED,
    COMPLETED,
    FAILED,
    LOST,
    MISSING,
    PENDING,
    RUNNING,
    PointState,
    plain_state,
    sweep_states,
)
from clusterjobs.slurm.queue import Queued, known_jobs
from clusterjobs.spec.keys.needs import On
from clusterjobs.spec.need_graph import NeedingSpec, SpecNeed
from clusterjobs.spec.need_references import KEY
from clusterjobs.yaml.document import dotted

BY_NAME = "found by its name"


class KnownJobs(NamedTuple):
    """The states of a spec's points by name, "" without a sweep, and what was submitted of it."""

    states: Mapping[str, PointState]
    submissions: tuple[Submission, ...]


def record_folder(spec: NeedingSpec) -> pathlib.Path:
    """The folder with the record of the submissions: that of the sweep, or else `logs`."""
    if spec.is_sweep:
        return sweep_folder(spec.loaded.spec)
    return logs_folder(spec.loaded.spec.logs.path)


def read_own_submissions(spec: NeedingSpec) -> tuple[Submission, ...]:
    """What was submitted of this spec; without a sweep, others share the record."""
    if spec.is_sweep:
        return read_submissions(record_folder(spec))
    return submissions_of(file_name(spec), spec.loaded.spec.name, record_folder(spec))


def known_jobs_of(
    spec: NeedingSpec, submissions: tuple[Submission, ...], queued: Mapping[str, Queued]
) -> KnownJobs:
    """The states of its jobs. Read the submissions first, then the queue: a job that ends in
    between has written its record by now."""
    folder, configs = record_folder(spec), OwnConfigs(pathlib.Path(spec.file))
    if spec.is_sweep:
        points = {one.point.name: configs.content(one) for one in spec.points if one.point}
        return KnownJobs(sweep_states(folder, points, submissions, queued), submissions)
    content, name = configs.content(spec.loaded), spec.loaded.spec.name
    same = tuple(one for one in submissions if one.content.get(name) == content)
    folders = [one for one in job_folders(folder) if one.is_of(name, file_name(spec))]
    own = [one.path for one in folders if one.plan.get("content") == content]
    state = plain_state(own, same, queued, content)
    if state.state == MISSING:
        known = {str(one.job_id) for one in submissions}
        of_another_content = PointState(CHANGED) if folders else state
        state = _waiting_by_name(name, queued, folders, known) or of_another_content
    return KnownJobs({"": state}, same)


def file_name(spec: NeedingSpec) -> str:
    """The name of the spec's file, as plan.json has it."""
    return pathlib.Path(spec.file).name


def _waiting_by_name(
    name: str,
    queued: Mapping[str, Queued],
    folders: Iterable[JobFolder],
    known: set[str],
) -> PointState | None:
    """A job of this user that was submitted on its own, and has no folder yet."""
    known |= {one.job_id for one in folders}
    for job_id, job in reversed([*queued.items()]):
        is_ours = job.name == name and job.user_id == os.getuid() and not job.array_index
        if is_ours and job.state in ("PENDING", "CONFIGURING") and job_id not in known:
            state = PENDING if job.state == "PENDING" else RUNNING
            return PointState(state, BY_NAME, job_id, in_queue=True)
    return None


# ------------------------------------------------------------------ needed job ids
# Needs that name a job by its id: what Slurm, or the job's own record, knows of it.


def needed_job_id(one: NeedingSpec, need: SpecNeed, index: int) -> Iterator[NeededJob]:
    """The job, if it must be waited for. Raises InputError if it is unknown, or will never do.

    Slurm itself would start the job at once if it has forgotten the other one.
    """
    job_id, on = need.need.job or "", need.need.on
    logs = logs_folder(one.loaded.spec.logs.path)
    jobs = [job for job in known_jobs() or () if job_id in (job.job_id, job.array_id, job.shown_id)]
    if any(not job.has_ended for job in jobs):
        begun = on == "start" and all(job.state != "PENDING" for job in jobs)
        if not begun:
            yield NeededJob("", job_id, on, str(logs.absolute()))
        return
    completed = _completed(jobs, logs / job_id)
    if completed is None:
        raise _problem(
            need,
            index,
            f"Slurm does not know job {job_id}, and {logs} has no record of it",
            "check the id; if the job has completed, remove this need",
        )
    if completed and on == "failure":
        what, hint = f"job {job_id} has completed, and did not fail", "remove this need"
        raise _problem(need, index, f"{what}: this one would never start", hint)
    if not completed and on == "success":
        what, hint = f"job {job_id} did not complete", "run it again, or write on: end"
        raise _problem(need, index, f"{what}: this one would never start", hint)


def _completed(jobs: Sequence[Queued], folder: pathlib.Path) -> bool | None:
    """Whether the job, which has ended, has ended well; None if it is unknown."""
    if jobs:
        return all(job.state == "COMPLETED" for job in jobs)
    attempts = read_folder(folder).attempts
    return attempts[-1].reason == "completed" if attempts else None


def _problem(need: SpecNeed, index: int, what: str, hint: str) -> InputError:
    return one_problem(what, need.where, dotted((KEY, index)), hint)


# ------------------------------------------------------------------ needed jobs
# Finds the jobs that must run first, and the job ids to wait for. Pure.
# Source: sbatch(1), --dependency.


_DEPENDENCIES: dict[str, str] = {
    "success": "afterok",
    "end": "afterany",
    "failure": "afternotok",
    "each": "aftercorr",
    "start": "after",
}
_NOT_OK = frozenset((FAILED, CANCELLED, LOST))
_ENDED = frozenset((COMPLETED, *_NOT_OK))
# The states that meet a need, so that nothing has to be waited for.
_MET: dict[On, frozenset[str]] = {
    "success": frozenset((COMPLETED,)),
    "each": frozenset((COMPLETED,)),
    "end": _ENDED,
    "failure": _NOT_OK,
    "start": frozenset((*_ENDED, RUNNING)),
}


class WaitsFor(NamedTuple):
    """The needs of a job, all of which must be met.

    `names`: the points of a sweep that wait for this; None for all of them.
    """

    needs: tuple[NeededJob, ...] = ()
    names: frozenset[str] | None = None

    def options(self, index: int | None = None) -> tuple[str, ...]:
        """The options of sbatch. No id twice.

        `index`: of the point of a script that is no array, so that no task corresponds to it.
        """
        if not self.needs:
            return ()
        ids: dict[str, list[str]] = defaultdict(list)
        for one in self.needs:
            if one.on == "each" and index is not None:
                ids["afterok"].append(f"{one.job_id}_{index}")
            else:
                ids[_DEPENDENCIES[one.on]].append(one.job_id)
        told = ",".join(":".join([kind, *dict.fromkeys(found)]) for kind, found in ids.items())
        return f"--dependency={told}", "--kill-on-invalid-dep=yes"


def to_run_first(on: On, states: Mapping[str, PointState]) -> tuple[str, ...]:
    """The points of a needed spec that have to be submitted before the job that needs it."""
    if on == "failure" and any(one.state in _NOT_OK for one in states.values()):
        return ()  # of a sweep, one failed point is a failure
    wanted = (
        {MISSING, CHANGED} if on in ("end", "start", "failure") else {MISSING, CHANGED, *_NOT_OK}
    )
    return tuple(name for name, one in states.items() if one.state in wanted and not one.in_queue)


def never_met(on: On, states: Mapping[str, PointState]) -> bool:
    """Whether a job with that need would never start, since all needed jobs have completed."""
    return on == "failure" and all(one.state == COMPLETED for one in states.values())


def ids_to_wait_for(
    on: On, states: Mapping[str, PointState], submissions: Sequence[Submission]
) -> tuple[str, ...]:
    """The ids of jobs for a dependency; none if the need is met.

    The id of an array if all of its tasks count, else the ids of its tasks: `afterok` of an
    array with a failed task is never met, even if its point was submitted again.
    """
    if on == "failure" and any(one.state in _NOT_OK for one in states.values()):
        return ()
    tasks = newest_tasks(submissions)
    by_digest = {digest_of(name): one for name, one in states.items()}
    waiting: dict[str, list[str]] = defaultdict(list)
    for digest, one in by_digest.items():
        if (one.state in (RUNNING, PENDING) or one.in_queue) and one.state not in _MET[on]:
            task = tasks.get(digest, Task(one.job_id))
            waiting[task.job_id].append(task.shown)
    whole = {str(one.job_id) for one in submissions if _is_whole(one, by_digest, tasks)}
    return tuple(
        dict.fromkeys(
            job_id
            for array, found in waiting.items()
            for job_id in ([array] if array in whole else found)
        )
    )


class Task(NamedTuple):
    """The task of an array that runs a point; `task` is "" for a single job."""

    job_id: str
    task: str = ""

    @property
    def shown(self) -> str:
        """The job's id as Slurm takes it. A task's own id may be that of the whole array."""
        return f"{self.job_id}_{self.task}" if self.task else self.job_id


def newest_tasks(submissions: Iterable[Submission]) -> dict[str, Task]:
    """Digest of a point -> the task that it was submitted in last; of a packed one, all of it."""
    return {
        digest_of(name): Task(str(one.job_id), key.partition(".")[0])
        for one in submissions
        if one.job_id is not None
        for key, name in one.points.items()
    }


def _is_whole(one: Submission, states: Mapping[str, PointState], tasks: Mapping[str, Task]) -> bool:
    """Whether each of its points was submitted there last, and has not failed."""
    for digest in map(digest_of, one.points.values()):
        state = states.get(digest)
        if (
            state is None
            or state.state in _NOT_OK
            or tasks.get(digest, Task("")).job_id != str(one.job_id)
        ):
            return False
    return one.job_id is not None
