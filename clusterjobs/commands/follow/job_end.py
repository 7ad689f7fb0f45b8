"""How a job ended: from the records in its folder, and from what Slurm still knows.

It reads files; it must not run commands.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from clusterjobs.jobs.records import NO_RECORD, read_folder, unrecorded_attempts
from clusterjobs.slurm.queue import Queued

COMPLETED = 0
_CANCELLED, _TIMEOUT, _UNKNOWN = 143, 124, 1  # as in the records of attempts


class JobEnd(NamedTuple):
    """Why a job ended: `completed`, `failure`, ... `exit_code`: the job's, 1 if unknown.

    `attempts`: their number. `no_record`: the last attempt, if its end was not recorded.
    """

    reason: str
    exit_code: int
    attempts: int = 0
    no_record: int | None = None

    def said(self, job_id: str) -> str:
        """A sentence."""
        more = f", in attempt {self.attempts}" if self.attempts > 1 else ""
        if self.reason == "completed":
            return f"job {job_id} completed{more}"
        return f"job {job_id} ended: {self.reason}, exit code {self.exit_code}{more}"


def job_end(folder: pathlib.Path | None, job: Queued | None) -> JobEnd:
    """How the job of that folder ended. `job`: Slurm's data; None if Slurm no longer knows the job,
    or if there is no Slurm."""
    attempts = read_folder(folder).attempts if folder else ()
    state = job.state if job else ""
    if folder and (missing := unrecorded_attempts(folder, attempts)):
        code = _CANCELLED if state == "CANCELLED" else _UNKNOWN
        return JobEnd(state.lower() or NO_RECORD, code, missing[0].number, missing[0].number)
    if not attempts:
        return JobEnd(state.lower() or "unknown", _exit_code(state))
    last = attempts[-1]
    if state == "CANCELLED" and last.reason != "completed":  # perhaps before its next attempt
        return JobEnd("cancelled", _CANCELLED, last.number)
    code = last.exit_code if last.exit_code is not None else _UNKNOWN
    if last.reason != "completed":
        code = code or _UNKNOWN
    return JobEnd(last.reason, code, last.number)


def _exit_code(state: str) -> int:
    codes = {"COMPLETED": COMPLETED, "CANCELLED": _CANCELLED, "TIMEOUT": _TIMEOUT}
    return codes.get(state, _UNKNOWN)
