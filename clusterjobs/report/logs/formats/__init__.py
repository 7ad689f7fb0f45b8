"""The formats of log lines that are known: one module for each framework.

A format finds lines by cheap literals, its `hints`, and turns them into windows and events.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from clusterjobs.report.logs.records import Event, Quantity, Window


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


_NUMBER = r"([-+]?(?:\d[\d.,]*(?:[eE][-+]?\d+)?|nan|inf))"


class Field(NamedTuple):
    """`before`: the literal in front of the number; the value is number x `unit`."""

    before: str
    quantity: Quantity
    unit: float = 1.0


class FieldsFormat:
    """A format whose line has one step, counted from 0, and named numbers.

    `step`: a pattern with one group.
    """

    def __init__(self, name: str, hint: str, step: str, fields: Iterable[Field]) -> None:
        self.name = name
        self.hints: tuple[str, ...] = (hint,)
        self._step = re.compile(step)
        self._fields = [(re.compile(re.escape(one.before) + _NUMBER), one) for one in fields]

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        step = self._step.search(line)
        if not step:
            return ()
        found: dict[Quantity, float] = {}
        for pattern, field in self._fields:
            if number := pattern.search(line):
                text = number[1].rstrip(".,").replace(",", "")
                found.setdefault(field.quantity, float(text) * field.unit)
        values = self.checked(found)
        return (Window(int(step[1]) + 1, values, None, rank),) if values else ()

    def checked(self, values: Mapping[Quantity, float]) -> Mapping[Quantity, float]:
        """What a subclass makes of the values of a line."""
        return values


# The most certain first: of two formats that describe the same step, the first one's values count.
_MODULES: tuple[str, ...] = (
    *("megatron", "deepspeed", "torchtitan", "fairseq", "horovod", "huggingface"),
    *("nemo", "mlperf", "maxtext", "litgpt", "composer", "paddle", "aws_fsdp"),
    "common",
    "lightning",  # a bar: lines that the program prints itself say more
)


def all_formats() -> list[Format]:
    """A new object of each known format."""
    modules = (importlib.import_module(f"{__name__}.{name}") for name in _MODULES)
    return [module.format_of_log() for module in modules]
