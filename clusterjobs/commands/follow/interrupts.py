"""Delays Ctrl-C and SIGTERM during a block that must not be interrupted."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_POSTPONED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def postponed_interrupts(say: Callable[[], None]) -> Iterator[None]:
    """Delay signals until the end of the block; `say` informs the user of a delayed one."""
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
