"""Ends the search for a spec's pattern on a line on which it would take hours.

Python's regular expressions have no limit of their own, but they notice signals.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable
from typing import NoReturn

from clusterjobs.errors import one_problem
from clusterjobs.report.formats.own_pattern import OwnPattern
from clusterjobs.report.records import Event, Window

SECONDS = 2.0  # of processor time, so that a busy machine is no reason to stop
_SHOWN = 60  # characters of the line


class LimitedPattern:
    """A format: the patterns of a spec, each line with a time limit."""

    def __init__(self, own: OwnPattern) -> None:
        self._own = own
        self.name, self.hints = own.name, own.hints
        self._line = ""
        # Signals only reach the main thread.
        self._has_limit = threading.current_thread() is threading.main_thread()
        if self._has_limit:
            signal.signal(signal.SIGVTALRM, self._stop)

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        """Raises InputError where a pattern does not come to an end."""
        if not self._has_limit:
            return self._own.read(line, rank)
        self._line = line
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            return self._own.read(line, rank)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _stop(self, *_: object) -> NoReturn:
        raise one_problem(
            f"a pattern takes more than {SECONDS:g} s for the line {self._line[:_SHOWN]!r}",
            path="report",
            hint="a repeat inside a repeat, such as (\\w+ ?)*, has too many ways to match; use one "
            "repeat, such as [\\w ]*",
        )
