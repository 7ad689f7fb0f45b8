"""The formats of log lines that are known: one module for each framework.

A format finds lines by cheap literals, its `hints`, and turns them into windows and events.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from clusterjobs.report.logs.records import Event, Window


class Format(Protocol):
    """One format, for one log: it may remember what earlier lines said.

    `hints`: a line without any of these literals has nothing for it. `read` gets a line without
    labels, colours and carriage returns, and the rank that printed it, if it is known. A damaged
    line raises ValueError; it is counted and dropped.
    """

    name: str
    hints: tuple[str, ...]

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]: ...


@runtime_checkable
class FastFormat(Format, Protocol):
    """One that reads its usual lines several times faster, as they are in the file.

    `read_raw` finds what `read` would find, or nothing: then the line is cleaned, and read.
    """

    def read_raw(self, raw: bytes) -> Window | None: ...


# The most certain first: of two formats that describe the same step, the first one's values count.
_MODULES: tuple[str, ...] = (
    *("megatron", "deepspeed", "torchtitan", "fairseq", "horovod", "huggingface"),
    *("nemo", "mlperf", "maxtext", "litgpt", "composer", "paddle", "aws_fsdp"),
    "common",
    "lightning",  # a bar: lines that the program prints itself say more
)


def all_formats() -> list[Format]:
    """A new object of each known format."""
    found: list[Format] = []
    for name in _MODULES:
        module = importlib.import_module(f"clusterjobs.report.logs.formats.{name}")
        found.append(module.format_of_log())
    return found
