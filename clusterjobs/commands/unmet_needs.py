"""Why a job that waited for others was cancelled by Slurm before it started.

It knows the record of what a job needs; it must not know how that is submitted.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Sequence

from clusterjobs.jobs.records import read_folder
from clusterjobs.jobs.submissions import NeededJob, read_submissions
from clusterjobs.jobs.sweeps import CANCELLED, COMPLETED, PENDING, RUNNING, sweep_states
from clusterjobs.slurm.queue import Queued

_ENDS = {
    "CANCELLED": "was cancelled",
    "COMPLETED": "completed",
    "NODE_FAIL": "lost its node",
    "OUT_OF_MEMORY": "ran out of memory",
    "PREEMPTED": "was preempted",
    "TIMEOUT": "reached its time limit",
}


def why_never_started(folder: pathlib.Path, job_id: str, jobs: Iterable[Queued] | None) -> str:
    """`needs prepare.yaml (job 4711), which failed`; "" if its needs are no reason.

    `folder`: with the record of submissions: `logs`, or the folder of a sweep. `jobs`: those that
    Slurm knows, ended ones included.
    """
    wanted = job_id.partition("_")[0]
    known = tuple(jobs or ())
    for one in reversed(read_submissions(folder)):
        if str(one.job_id) == wanted:
            return "; ".join(_unmet(one.needs, known))
    return ""


def _unmet(needs: Iterable[NeededJob], jobs: Sequence[Queued]) -> Iterator[str]:
    for one in needs:
        end = _end(one, jobs)
        completed = end == _ENDS["COMPLETED"]
        if end and one.on in ("success", "each", "failure") and completed == (one.on == "failure"):
            name = f"{one.spec} (job {one.job_id})" if one.spec else f"job {one.job_id}"
            yield f"needs {name}, {end if end.startswith('of which') else f'which {end}'}"


def _end(need: NeededJob, jobs: Sequence[Queued]) -> str:
    """How a needed job ended, in words; "" if it has not, or nothing is known of it."""
    folder = pathlib.Path(need.folder)
    array = need.job_id.partition("_")[0]
    for one in read_submissions(folder):
        if str(one.job_id) == array and "" not in one.points:
            return _of_the_sweep(folder, one.points.values())
    found = [job for job in jobs if need.job_id in (job.job_id, job.array_id, job.shown_id)]
    if found:
        states = [job.state for job in found]
        state = next((state for state in states if state != "COMPLETED"), "COMPLETED")
        return _ENDS.get(state, "failed") if all(job.has_ended for job in found) else ""
    attempts = read_folder(folder / need.job_id).attempts
    if not attempts:
        return "never started"
    reason = attempts[-1].reason
    return {"completed": "completed", "cancelled": "was cancelled"}.get(reason, "failed")


def _of_the_sweep(folder: pathlib.Path, names: Iterable[str]) -> str:
    points = dict.fromkeys(names, "")
    states = [one.state for one in sweep_states(folder, points, (), {}).values()]
    wrong = [one for one in states if one not in (COMPLETED, PENDING, RUNNING)]
    if not wrong:
        return _ENDS["COMPLETED"]
    how = "were cancelled" if all(one == CANCELLED for one in wrong) else "failed"
    return f"of which {len(wrong)} of {len(states)} points {how}"
