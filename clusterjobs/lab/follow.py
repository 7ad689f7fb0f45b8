"""Follows a job to its end: its states, and its log as it grows.

Knows where the log of a job lies on this machine; must not know a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from clusterjobs.growing_file import GrowingFile
from clusterjobs.lab.jobs import Job, JobEnd
from clusterjobs.lab.lab import Lab
from clusterjobs.lab.polling import POLL_SECONDS


def follow(
    lab: Lab, job_id: str, write: Callable[[str], None], say: Callable[[str], None]
) -> JobEnd:
    """`write` gets the log's text and `say` a line for every change of the job's state."""
    log = GrowingFile(lab.folder.host_path(lab.job(job_id).stdout))
    said = ""
    while True:
        job = lab.job(job_id)
        text = log.new_text()  # read after the state, so that an ended job's log is whole
        if text and job.end:
            write(text)
        if (line := _line(job)) != said:
            said = line
            say(line)
        if job.end:
            return job.end
        if text:
            write(text)
        time.sleep(POLL_SECONDS)


def _line(job: Job) -> str:
    where = f" on {job.nodes}" if job.nodes not in ("", "(null)") else ""
    why = f" ({job.reason})" if job.state == "PENDING" and job.reason != "None" else ""
    again = f", restart {job.restarts}" if job.restarts else ""
    return f"job {job.job_id} is {job.state}{where}{why}{again}"
