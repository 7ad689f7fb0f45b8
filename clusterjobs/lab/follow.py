"""Follows a job to its end: its states, and its log as it grows.

Knows where the log of a job lies on this machine; must not know a terminal.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from pathlib import Path

from clusterjobs.lab.jobs import Job, JobEnd
from clusterjobs.lab.lab import Lab
from clusterjobs.lab.polling import POLL_SECONDS


class Log:
    """What was added to a file since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def new_text(self) -> str:
        """ "" while the file is not there; from its start when a requeued job wrote it anew."""
        try:
            with self.path.open("rb") as file:
                if self.path.stat().st_size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                added = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        self._offset += len(added)
        return self._decoder.decode(added)


def follow(
    lab: Lab, job_id: str, write: Callable[[str], None], say: Callable[[str], None]
) -> JobEnd:
    """`write` gets the log's text and `say` a line for every change of the job's state."""
    log = Log(lab.folder.host_path(lab.job(job_id).stdout))
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
