"""Follows a job until it ends: its states, and its log as it grows.

This module knows the path of a job's log on this machine; it must not know a terminal.
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
    """Pass the log's text to `write`, and a line for every change of the job's state to `say`."""
    log = GrowingFile(lab.folder.host_path(lab.job(job_id).stdout))
    last_line = ""
    while True:
        job = lab.job(job_id)
        text = log.new_text()  # read after the state, so that the log of an ended job is complete
        if text and job.end:
            write(text)
        if (line := _line(job)) != last_line:
            last_line = line
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
