"""Polls Slurm's queue while a job is followed, at growing intervals.

It must not know what is followed.
"""

from __future__ import annotations

import time

import click

from clusterjobs.commands.show import printable
from clusterjobs.errors import InputError
from clusterjobs.slurm.queue import Queued, known_jobs

POLL_SECONDS = 1.0  # between two reads of files: the file system is shared
_FIRST, _LAST = 2.0, 15.0  # seconds between two calls of squeue, after 0 and after 5 minutes
_GROWTH_SECONDS = 300.0


class PolledQueue:
    """The last output of squeue. If the controller does not answer, the user is told once."""

    def __init__(self) -> None:
        self._jobs: tuple[Queued, ...] | None = ()
        self._start = time.monotonic()
        self._asked: float | None = None
        self._said = ""

    def jobs(self, now: bool = False) -> tuple[Queued, ...] | None:
        """All jobs that Slurm knows; None without Slurm. `now`: call squeue at once."""
        while self._asked is None and not self._ask():
            time.sleep(_FIRST)
        if now or self._is_old():
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
                click.echo(printable(f"{error}; asking again"), err=True)
            self._said = str(error)
            if self._asked is None:
                return False
        else:
            self._said = ""
        self._asked = time.monotonic()
        return True
