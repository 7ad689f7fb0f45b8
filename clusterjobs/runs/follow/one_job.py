"""Follows one job to its end: why it waits, its log as it grows, how it ended."""

from __future__ import annotations

import math
import pathlib
import re
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import click

from clusterjobs.console import Say, printable, say_on_stderr
from clusterjobs.errors import InputError, one_problem
from clusterjobs.files import GrowingFile
from clusterjobs.runs.follow.rank_lines import RankChoice
from clusterjobs.runs.jobs.records import NO_RECORD, read_folder, unrecorded_attempts
from clusterjobs.slurm.jobs import in_words
from clusterjobs.slurm.queue import Queued, known_jobs

# ------------------------------------------------------------------ polled queue
# Polls Slurm's queue while a job is followed, at growing intervals.


POLL_SECONDS = 1.0  # between two reads of files: the file system is shared
_FIRST, _LAST = 2.0, 15.0  # seconds between two calls of squeue, after 0 and after 5 minutes
_GROWTH_SECONDS = 300.0


class PolledQueue:
    """The last output of squeue. If the controller does not answer, the user is told once."""

    def __init__(self, say: Say = say_on_stderr) -> None:
        self._say = say
        self._jobs: tuple[Queued, ...] | None = ()
        self._start = time.monotonic()
        self._asked: float | None = None
        self._said = ""

    def without_slurm(self) -> PolledQueue:
        """The queue from now on without Slurm: it knows no job."""
        self._jobs, self._asked = None, math.inf
        return self

    def jobs(self, now: bool = False) -> tuple[Queued, ...] | None:
        """All jobs that Slurm knows; None without Slurm. `now`: call squeue at once."""
        while self._asked is None and not self._ask():
            time.sleep(_FIRST)
        if self._jobs is not None and (now or self._is_old()):
            self._ask()
        return self._jobs

    def _is_old(self) -> bool:
        assert self._asked is not None
        share = min(1.0, (time.monotonic() - self._start) / _GROWTH_SECONDS)
        return time.monotonic() - self._asked >= _FIRST + share * (_LAST - _FIRST)

    def _ask(self) -> bool:
        """Call squeue once; false if the controller does not answer."""
        try:
            self._jobs = known_jobs()
        except InputError as error:
            if str(error) != self._said:
                self._say(f"{error}; asking again")
            self._said = str(error)
            if self._asked is None:
                return False
        else:
            self._said = ""
        self._asked = time.monotonic()
        return True


# ------------------------------------------------------------------ job end
# How a job ended: from the records in its folder, and from what Slurm still knows.


COMPLETED = 0
_UNKNOWN, _CANCELLED = 1, 143  # as in the records of attempts
_EXIT_CODES = {"COMPLETED": COMPLETED, "CANCELLED": _CANCELLED, "TIMEOUT": 124}


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
        return JobEnd(state.lower() or "unknown", _EXIT_CODES.get(state, _UNKNOWN))
    last = attempts[-1]
    if state == "CANCELLED" and last.reason != "completed":  # perhaps before its next attempt
        return JobEnd("cancelled", _CANCELLED, last.number)
    code = last.exit_code if last.exit_code is not None else _UNKNOWN
    if last.reason != "completed":
        code = code or _UNKNOWN
    return JobEnd(last.reason, code, last.number)


# ------------------------------------------------------------------ log printer
# Prints a job's log to standard output as it grows: all of it, its last lines, or one rank's.


_ENDED = re.compile(r"(?m)^clusterjobs: job [0-9]+ ended with exit code")


class LogPrinter:
    """`rank`: print only its lines; None: all. `tail`: start with this many lines.

    `saw_end`: whether the log reported the end of an attempt since the last call.
    """

    def __init__(
        self, path: pathlib.Path, rank: RankChoice | None = None, tail: int | None = None
    ) -> None:
        self.path, self.choice, self.saw_end = path, rank, False
        self.rank = rank.filter() if rank else None
        self._file, self._said_uncertain = GrowingFile(path), False
        if tail is not None:
            try:
                self._file.skip_to_last(tail, self.rank.counts if self.rank else None)
            except OSError as error:
                raise self._unreadable(error) from None

    def print_new(self) -> None:
        """Print what was added since the last call. Raises InputError if it cannot be read."""
        self.saw_end = False
        try:
            for text in self._file.new_parts():
                self.saw_end = self.saw_end or bool(_ENDED.search(text))
                self._print(self.rank.passed(text) if self.rank else text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._unreadable(error) from None

    def finish(self) -> None:
        """Print the rest of a log that is complete.

        Raises InputError if it had no line of the rank.
        """
        self.print_new()
        if self._file.is_gone:
            what = f"there is no {self.path}: it was renamed or removed, or never written"
            raise one_problem(what, hint="the job may have written more to a renamed file")
        if self.rank and self.choice:
            self._print(self.rank.rest())
            if not self.rank.found:
                raise self.choice.nothing(self.path)

    def _print(self, text: str) -> None:
        """The text without control characters, since another user may have written it."""
        if self.rank and self.choice and not self.rank.is_certain and not self._said_uncertain:
            self._said_uncertain = True
            click.echo(self.choice.uncertain, err=True)
        if text:
            foreign = self._file.is_foreign()
            click.echo(printable(text, kept="\n\r\t") if foreign else text, nl=False)

    def _unreadable(self, error: OSError) -> Exception:
        return one_problem(f"cannot read {self.path}: {error.strerror}")


class FollowedJob:
    """A job whose folder is `<base>/<its own id>`.

    `job_id`: `4711`, or `4711_3` for a task of an array, whose own id is known once it has started.
    `new_printer` makes what prints the log. `owns`: false for a job of Slurm that only has its id.
    """

    def __init__(
        self,
        job_id: str,
        base: pathlib.Path,
        new_printer: Callable[[pathlib.Path], LogPrinter],
        queue: PolledQueue,
        owns: Callable[[Queued], bool] = lambda _: True,
    ) -> None:
        self.job_id, self.base, self.new_printer = job_id, base, new_printer
        self._owns = owns
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
            time.sleep(POLL_SECONDS)
        if self.log:
            self.log.finish()
        return job_end(self.folder, self.known)

    def _look(self) -> bool:
        """Print what is new, and return whether the job has ended."""
        jobs = self.queue.jobs(now=bool(self.log and self.log.saw_end))
        found = job_with_id(self.job_id, filter(self._owns, jobs or ()))
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
