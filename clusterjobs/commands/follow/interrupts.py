"""Delays Ctrl-C and SIGTERM during a block that must not be interrupted."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_POSTPONED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Note:
    """A handler that notes the first signal."""

    def __init__(self, say: Callable[[], None]) -> None:
        self.say = say
        self.number: int | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.number = self.number or number
        self.say()


@contextlib.contextmanager
def postponed_interrupts(say: Callable[[], None]) -> Iterator[None]:
    """Delay signals until the end of the block; `say` informs the user of a delayed one.

    Inside another such block, a signal is delayed until the end of the outer one: only there it is
    known what was submitted. Ignored signals, such as SIGHUP under nohup, stay ignored.
    """
    note = _Note(say)
    heeded = [one for one in _POSTPONED if signal.getsignal(one) != signal.SIG_IGN]
    previous = {one: signal.signal(one, note) for one in heeded}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if note.number is not None:
        _end(note.number, previous[signal.Signals(note.number)])


def _end(number: int, handler: object) -> None:
    """Pass it to the block around this one, or else stop."""
    if not isinstance(handler, _Note):
        raise KeyboardInterrupt
    handler.number = handler.number or number
