"""Follows one job to its end: why it waits, its log as it grows, how it ended.

It must not know how a job is chosen or submitted.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Iterable

import click

from clusterjobs.commands.follow import polled_queue
from clusterjobs.commands.follow.job_end import JobEnd, job_end
from clusterjobs.commands.follow.log_printer import LogPrinter
from clusterjobs.commands.follow.polled_queue import PolledQueue
from clusterjobs.commands.show import printable
from clusterjobs.slurm.queue import Queued
from clusterjobs.slurm.reasons import in_words


class FollowedJob:
    """A job whose folder is `<base>/<its own id>`.

    `job_id`: `4711`, or `4711_3` for a task of an array, whose own id is known once it has started.
    `new_printer` makes what prints the log.
    """

    def __init__(
        self,
        job_id: str,
        base: pathlib.Path,
        new_printer: Callable[[pathlib.Path], LogPrinter],
        queue: PolledQueue,
    ) -> None:
        self.job_id, self.base, self.new_printer = job_id, base, new_printer
        self.log: LogPrinter | None = None
        self.queue = queue
        self.known: Queued | None = None  # Slurm's last answer
        self._reason = ""

    @property
    def folder(self) -> pathlib.Path | None:
        """The job's folder; None while its own id is unknown, or if it has none."""
        own_id = self.known.job_id if self.known else self.job_id
        folder = self.base / own_id
        return folder if own_id.isdecimal() and folder.is_dir() else None

    def follow(self) -> JobEnd:
        """Print until the job has ended. Without Slurm, print what there is."""
        while not self._look():
            time.sleep(polled_queue.POLL_SECONDS)
        if self.log:
            self.log.finish()
        return job_end(self.folder, self.known)

    def _look(self) -> bool:
        """Print what is new, and return whether the job has ended."""
        jobs = self.queue.jobs(now=bool(self.log and self.log.saw_end))
        found = None if jobs is None else job_with_id(self.job_id, jobs)
        self.known = found or self.known
        if found:
            self._say_why_it_waits(found)
        folder = self.folder
        if self.log is None and folder:
            self.log = self.new_printer(folder / "job.log")
        if self.log:
            self.log.print_new()
        return found is None or found.has_ended

    def _say_why_it_waits(self, job: Queued) -> None:
        """Print each reason once: the expected start changes often."""
        reason = job.reason if job.state == "PENDING" else ""
        if reason and reason != self._reason:
            click.echo(printable(waiting(job)), err=True)
        self._reason = reason


def job_with_id(job_id: str, jobs: Iterable[Queued]) -> Queued | None:
    """The job with this id, also `4711_3`. Pending tasks share the id of their array."""
    found = [one for one in jobs if job_id in (one.job_id, one.shown_id)]
    return next((one for one in found if one.state != "PENDING"), found[0] if found else None)


def waiting(job: Queued) -> str:
    """Why the job does not run; "" while it runs."""
    if job.state != "PENDING":
        return ""
    start = f"; expected to start at {job.start}" if job.start else ""
    return f"job {job.shown_id} is pending: {in_words(job.reason)}{start}"
