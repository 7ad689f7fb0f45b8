"""Finds the jobs that must run first, and the job ids to wait for. Pure.

It knows the states of jobs and Slurm's dependency types; it must not know how jobs are
submitted. Source: sbatch(1), --dependency.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.jobs.point_folders import digest_of
from clusterjobs.jobs.submissions import NeededJob, Submission
from clusterjobs.jobs.sweeps import (
    CANCELLED,
    CHANGED,
    COMPLETED,
    FAILED,
    LOST,
    MISSING,
    PENDING,
    RUNNING,
    PointState,
)
from clusterjobs.spec.need_keys import On

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
        """As Slurm takes it. A task's own id may be that of the whole array."""
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
