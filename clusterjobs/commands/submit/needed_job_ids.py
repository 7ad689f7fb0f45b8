"""Needs that name a job by its id: what Slurm, or the job's own record, knows of it."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence

from clusterjobs.commands.job_folders import logs_folder
from clusterjobs.errors import InputError, one_problem
from clusterjobs.jobs.records import read_folder
from clusterjobs.jobs.submissions import NeededJob
from clusterjobs.slurm.queue import Queued, known_jobs
from clusterjobs.spec.need_circle import KEY
from clusterjobs.spec.need_graph import NeedingSpec, SpecNeed
from clusterjobs.spec.references import as_text
from clusterjobs.yaml.document import dotted


def needed_job_id(one: NeedingSpec, need: SpecNeed, index: int) -> Iterator[NeededJob]:
    """The job, if it must be waited for. Raises InputError if it is unknown, or will never do.

    Slurm itself would start the job at once if it has forgotten the other one.
    """
    job_id, on = need.need.job or "", need.need.on
    logs = logs_folder(as_text(one.spec.experiment.logs.path))
    jobs = [job for job in known_jobs() or () if _is(job, job_id)]
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


def _is(job: Queued, job_id: str) -> bool:
    return job_id in (job.job_id, job.array_id, job.shown_id)


def _completed(jobs: Sequence[Queued], folder: pathlib.Path) -> bool | None:
    """Whether the job, which has ended, has ended well; None if it is unknown."""
    if jobs:
        return all(job.state == "COMPLETED" for job in jobs)
    attempts = read_folder(folder).attempts
    return attempts[-1].reason == "completed" if attempts else None


def _problem(need: SpecNeed, index: int, what: str, hint: str) -> InputError:
    return one_problem(what, need.where, dotted((KEY, index)), hint)
