"""Resolves the id of a task of an array, `4711_3`, as `status` shows it until the task starts.

It must not ask Slurm, nor read folders.
"""

from __future__ import annotations

from clusterjobs.commands.status.queue import Queue
from clusterjobs.commands.status.sweep import SweepData
from clusterjobs.jobs.point_folders import digest_of
from clusterjobs.jobs.submissions import Submission


def own_id(job_id: str, queue: Queue) -> str:
    """The task's own job id, if Slurm knows that it has one; else `job_id`."""
    known = (*(queue.queued or {}).values(), *queue.ended)
    tasks = (job for job in known if job.shown_id == job_id and job.job_id != job.array_id)
    return next((job.job_id for job in tasks), job_id)


def points_of_task(sweep: SweepData, job_id: str) -> set[str]:
    """The points that were submitted last as this task: several in a pack."""
    array, _, task = job_id.partition("_")
    newest: dict[str, tuple[Submission, str]] = {}
    for one in sweep.sweep.submissions:
        if one.job_id is not None:
            newest |= {digest_of(name): (one, key) for key, name in one.points.items()}
    digests = {
        digest
        for digest, (one, key) in newest.items()
        if task and str(one.job_id) == array and key.partition(".")[0] == task
    }
    return {name for name in sweep.all_states if digest_of(name) in digests}
