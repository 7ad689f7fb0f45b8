"""Ctrl-C and SIGTERM wait while something must not be cut in two."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_POSTPONED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def postponed_interrupts(say: Callable[[], None]) -> Iterator[None]:
    """Until the end of the block a signal is only noted, and `say` tells the user so."""
    noted: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        say()

    previous = {one: signal.signal(one, note) for one in _POSTPONED}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if noted:
        raise KeyboardInterrupt
