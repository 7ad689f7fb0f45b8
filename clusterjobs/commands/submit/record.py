"""Calls sbatch with a record in submissions.jsonl: the intent before, the job's id afterwards.

So a crash in between loses no job, and starts no point twice: the intent's token is in the job's
comment. This module must not know what is submitted.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from clusterjobs.commands.follow.interrupts import postponed_interrupts
from clusterjobs.commands.submit.lock import user_name
from clusterjobs.errors import one_problem
from clusterjobs.jobs.submissions import NeededJob, Submission, append_submission
from clusterjobs.plan.plan import Plan
from clusterjobs.slurm.submit import Submitted, submit


def new_intent(
    spec: str,
    array: bool,
    points: Mapping[str, str],
    content: Mapping[str, str],
    needs: Sequence[NeededJob],
) -> Submission:
    """What is about to be submitted, by this user and now; it has no job id yet."""
    return Submission(
        token=secrets.token_hex(8),
        job_id=None,
        user=user_name(),
        time=int(time.time()),
        spec=spec,
        array=array,
        points=points,
        content=content,
        needs=tuple(needs),
    )


def submit_recorded(
    script: str,
    plan: Plan,
    options: Sequence[str],
    intent: Submission,
    record: BinaryIO,
    say: Callable[[str], None],
) -> Submitted:
    """Write the intent, call sbatch, and write the job's id.

    `options` of sbatch; their comment, or the plan's, is kept. Raises InputError: if the id cannot
    be written, with the id.
    """
    comment = "--comment=" + f"{_comment(plan, options)} {intent.comment}".strip()
    with postponed_interrupts(lambda: say("sbatch is running: stopping after its answer")):
        _append(record, intent)
        inherited = (record.fileno(),)
        job = submit(script, (*options, comment), os.environ, inherited=inherited)
        if job.job_id is not None:
            _append(record, intent.with_job(job.job_id, job.cluster))
    return job


def _comment(plan: Plan, options: Sequence[str]) -> str:
    """The comment of the last option that has one, or of the spec."""
    found = (str(one.value) for one in plan.job.directives if one.name == "comment")
    given = next(found, "")
    words = iter(options)
    for option in words:
        if option == "--comment":
            given = next(words, "")
        elif option.startswith("--comment="):
            given = option.partition("=")[2]
    return given


def _append(file: BinaryIO, submission: Submission) -> None:
    try:
        append_submission(file, submission)
    except OSError as error:
        why = f"{file.name}: {error.strerror}"
        if submission.job_id is None:
            raise one_problem(f"cannot write {why}", hint="nothing more was submitted") from None
        raise one_problem(
            f"job {submission.job_id} was submitted, but its id cannot be written to {why}",
            hint="free some space; while the job is in the queue, it is found by its comment",
        ) from None
