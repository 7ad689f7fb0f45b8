"""The formats of log lines that are known.

Most programs are read by the names of their values (`general/`). A module here is for one whose
lines mean something else than their names say, or belong together. A format finds lines by cheap
literals, its `hints`, and turns them into windows and events.
"""

import importlib
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from clusterjobs.report.logs.forms import Place, Rows
from clusterjobs.report.logs.records import Event, Window


class Format(Protocol):
    """One format, for one log: it may remember what earlier lines said.

    `hints`: a line without any of these literals has nothing for it. `read` gets a line without
    labels, colours and carriage returns, and the rank that printed it, if it is known. A damaged
    line raises ValueError; it is counted and dropped.
    """

    @property
    def name(self) -> str: ...

    hints: tuple[str, ...]

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]: ...


@runtime_checkable
class FastFormat(Format, Protocol):
    """One whose usual lines are read many at once (`forms.py`).

    `places`: where the numbers stand that make the window of this line, which was read before; none
    if it needs more than these. `finish`: what `read` would make of such rows; None, and nothing
    remembered, if they have to be read line by line.
    """

    def places(self, line: str) -> Sequence[Place]: ...

    def finish(self, rows: Rows) -> Rows | None: ...


@runtime_checkable
class NarrowFormat(Format, Protocol):
    """One that needs fewer hints once it has seen lines of the log."""

    def narrow(self, lines: Sequence[str]) -> None: ...


@runtime_checkable
class HoldingFormat(Format, Protocol):
    """One whose windows wait for later lines, such as for a speed that is not certain yet.

    `held`: those that wait now. `drop_held` forgets them.
    """

    def held(self) -> Sequence[Window | Event]: ...

    def drop_held(self) -> None: ...


# The most certain first: of two formats that describe the same step, the first one's values count.
_MODULES: tuple[str, ...] = (
    *(f"{__name__}.{name}" for name in ("megatron", "deepspeed", "fairseq", "horovod")),
    *(f"{__name__}.{name}" for name in ("huggingface", "mlperf")),
    "clusterjobs.report.logs.general.reader",
    f"{__name__}.bars",  # lines that the program prints itself say more
)


def all_formats() -> list[Format]:
    """A new object of each known format."""
    return [importlib.import_module(name).format_of_log() for name in _MODULES]
