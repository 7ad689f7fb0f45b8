"""Which of Slurm's jobs belongs to a submission, or has made a folder.

A job id says nothing alone: a new cluster on the same file system counts its jobs from 1 again. A
job that `submit` has submitted has a token in its comment. One of plain sbatch has none: its folder
must be its user's, and must not be older than the job's start.
"""

import pathlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from clusterjobs.runs.jobs.folders import COMMENT, Submission, read_plan
from clusterjobs.slurm.queue import WAITING, Queued

_CLOCKS = 300  # seconds by which Slurm's clock and that of the file system may differ


def token_of(job: Queued) -> str:
    """The token that `submit` has put into the job's comment; "" without one."""
    marked = [one for one in job.comment.split() if one.startswith(COMMENT)]
    return marked[-1].removeprefix(COMMENT) if marked else ""


def is_of_submission(job: Queued, one: Submission) -> bool:
    """Whether this job, or its array, was submitted by this call of sbatch.

    A job without a token counts if its id and its time are those of the record: somebody may have
    changed its comment.
    """
    if token := token_of(job):
        return token == one.token
    submitted = _seconds(job.submitted)
    is_same = one.job_id is not None and str(one.job_id) == (job.array_id or job.job_id)
    return is_same and submitted is not None and abs(submitted - one.time) <= _CLOCKS


def tasks_by_token(
    submissions: Iterable[Submission], jobs: Mapping[str, Queued]
) -> dict[str, dict[str, tuple[str, Queued]]]:
    """Token of a submission -> index in its array, "" for a single job -> the job, with its id."""
    found: dict[str, dict[str, tuple[str, Queued]]] = {}
    without: dict[str, list[tuple[str, Queued]]] = {}
    for job_id, job in jobs.items():
        if token := token_of(job):
            found.setdefault(token, {})[job.array_index] = (job_id, job)
        else:
            without.setdefault(job.array_id or job.job_id, []).append((job_id, job))
    for one in submissions:
        for job_id, job in without.get(str(one.job_id), ()):
            if is_of_submission(job, one):
                found.setdefault(one.token, {})[job.array_index] = (job_id, job)
    return found


def with_ids(submissions: Sequence[Submission], jobs: Iterable[Queued]) -> tuple[Submission, ...]:
    """The submissions, also with the ids of jobs whose `submit` has got no answer from sbatch."""
    open_ones = {one.token for one in submissions if one.job_id is None}
    ids = {token_of(job): job.array_id or job.job_id for job in jobs} if open_ones else {}
    return tuple(
        replace(one, job_id=int(ids[one.token]))
        if one.token in open_ones and one.token in ids
        else one
        for one in submissions
    )


def is_of_folder(job: Queued, folder: pathlib.Path, submissions: Iterable[Submission]) -> bool:
    """Whether this job has made the folder, whose name is its id. `submissions`: of the spec."""
    token = token_of(job)
    if token and any(one.token == token for one in submissions):
        return True
    plan = folder / "plan.json"
    try:
        is_own = folder.stat().st_uid == job.user_id
        began = (plan if plan.exists() else folder).stat().st_mtime
    except OSError:
        return False
    start = None if job.state in WAITING else _seconds(job.start)
    if start is None:  # it waits, perhaps for its next attempt
        return is_own and not token and read_plan(plan).get("name") == job.name
    return is_own and began >= start - _CLOCKS


def _seconds(text: str) -> float | None:
    """Seconds since 1970 of a time as squeue prints it; None if it is unknown."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
