"""Submits a spec without a sweep: a run with one point, recorded beside its jobs.

Each `submit` of it is a job of its own, except one that repeats a `submit` without an answer.
"""

import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

from clusterjobs.console import Say
from clusterjobs.runs.jobs.find import submissions_of
from clusterjobs.runs.jobs.folders import Submission, job_folders, start_time
from clusterjobs.runs.jobs.identity import with_ids
from clusterjobs.runs.run import Run
from clusterjobs.runs.submit.lock import user_name
from clusterjobs.runs.submit.needed_jobs import WaitsFor
from clusterjobs.runs.submit.sbatch import Submitted, new_intent, settled_jobs, submit_recorded


def unanswered_request(run: Run, logs: pathlib.Path) -> Submission | None:
    """The job of an earlier `submit` that got no answer from sbatch, if Slurm has taken it."""
    (point,) = run.points
    name, file = point.point.name, run.inputs.spec[0]
    own = [one for one in submissions_of(file, name, logs) if one.user == user_name()]
    waiting = [one for one in own if one.job_id is None and one.content == {name: point.content}]
    if not waiting:
        return None
    found = [
        one for one in with_ids(waiting, settled_jobs(waiting) or ()) if one.job_id is not None
    ]
    if found:
        return found[-1]
    recorded = {str(one.job_id) for one in own}
    for job in job_folders(logs):  # it may have ended long ago
        is_same = job.is_of(name, file) and job.plan.get("content") == point.content
        if is_same and job.job_id not in recorded and start_time(job.path) >= waiting[0].time:
            return replace(waiting[0], job_id=int(job.job_id))
    return None


def submit_plain(
    run: Run,
    script: str,
    waits: WaitsFor,
    record: BinaryIO | None,
    say: Say,
    sbatch: Sequence[str] = (),
) -> Submitted:
    """Submit it with a record, if there is one. Raises InputError."""
    (point,) = run.points
    name = point.point.name
    intent = new_intent(
        run.inputs.spec[0],
        array=False,
        points={"": name},
        content={name: point.content},
        needs=waits.needs,
    )
    return submit_recorded(script, run.plan, (*sbatch, *waits.options()), intent, record, say)
