"""What a need means for the jobs of a spec: which must run first, and which ids to wait for. Pure.

It knows the states of jobs and Slurm's words for dependencies; it must not know how jobs are
submitted. Source: sbatch(1), --dependency.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

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
    digest_of,
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
    """Whether a job with that need would never start: everything there has ended well."""
    return on == "failure" and all(one.state == COMPLETED for one in states.values())


def ids_to_wait_for(
    on: On, states: Mapping[str, PointState], submissions: Iterable[Submission]
) -> tuple[str, ...]:
    """The ids of jobs for a dependency; none if the need is met.

    An array by its own id if no point of it has failed, else its tasks one by one: one that has
    failed would keep the others from being enough.
    """
    if on == "failure" and any(one.state in _NOT_OK for one in states.values()):
        return ()
    arrays = _arrays(submissions)
    waiting: dict[str, list[PointState]] = defaultdict(list)
    whole: dict[str, bool] = defaultdict(lambda: True)
    for name, one in states.items():
        array = arrays.get(digest_of(name), one.job_id.partition("_")[0])
        if one.state in (RUNNING, PENDING) or one.in_queue:
            if one.state not in _MET[on]:
                waiting[array].append(one)
        elif one.state != COMPLETED and array:
            whole[array] = False
    return tuple(
        dict.fromkeys(
            job_id
            for array, tasks in waiting.items()
            for job_id in ([array] if whole[array] else [one.job_id for one in tasks])
        )
    )


def task_of(digest: str, submissions: Sequence[Submission]) -> tuple[str, str]:
    """The array, or job, that a point was submitted in last, and its task; "" if in none."""
    for one in reversed(submissions):
        for task, name in one.points.items():
            if one.job_id is not None and digest_of(name) == digest:
                return str(one.job_id), task
    return "", ""


def _arrays(submissions: Iterable[Submission]) -> dict[str, str]:
    """Digest of a point -> the id of the array, or of the job, that it was submitted in last."""
    return {
        digest_of(name): str(one.job_id)
        for one in submissions
        for name in one.points.values()
        if one.job_id is not None
    }
