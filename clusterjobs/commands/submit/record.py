"""Writes submissions.jsonl, also onto a full disk: it says what was submitted nevertheless.

It knows the record; it must not know what is submitted.
"""

from __future__ import annotations

from typing import BinaryIO

from clusterjobs.errors import one_problem
from clusterjobs.jobs.submissions import Submission, append_submission


def append_intent(file: BinaryIO, submission: Submission) -> None:
    """Write it before sbatch is called. Raises InputError: nothing must be submitted then."""
    try:
        append_submission(file, submission)
    except OSError as error:
        raise one_problem(
            f"cannot write {file.name}: {error.strerror}", hint="nothing more was submitted"
        ) from None


def append_job(file: BinaryIO, submission: Submission) -> None:
    """Write the id of the job. Raises InputError with it."""
    try:
        append_submission(file, submission)
    except OSError as error:
        raise one_problem(
            f"job {submission.job_id} was submitted, but its id cannot be written to {file.name}: "
            f"{error.strerror}",
            hint="make room: as long as it is in the queue, it is known by its comment",
        ) from None
