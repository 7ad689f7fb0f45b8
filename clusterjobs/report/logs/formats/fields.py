"""A format whose line has one step and named numbers: what several frameworks print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from clusterjobs.report.logs.records import Event, Quantity, Window

_NUMBER = r"([-+]?(?:\d[\d.,]*(?:[eE][-+]?\d+)?|nan|inf))"


class Field(NamedTuple):
    """`before`: the literal in front of the number; the value is number x `unit`."""

    before: str
    quantity: Quantity
    unit: float = 1.0


class FieldsFormat:
    """`step`: a pattern with one group; `first`: the number of the first step in the log."""

    def __init__(
        self, name: str, hint: str, step: str, fields: Iterable[Field], first: int = 1
    ) -> None:
        self.name = name
        self.hints: tuple[str, ...] = (hint,)
        self._step = re.compile(step)
        self._first = first
        self._fields = [(re.compile(re.escape(one.before) + _NUMBER), one) for one in fields]

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        step = self._step.search(line)
        if not step:
            return ()
        number = int(step[1]) + 1 - self._first
        values = self.checked(self._values(line))
        return (Window(number, values, None, rank),) if values else ()

    def checked(self, values: Mapping[Quantity, float]) -> Mapping[Quantity, float]:
        """What a subclass makes of the values of a line."""
        return values

    def _values(self, line: str) -> dict[Quantity, float]:
        found: dict[Quantity, float] = {}
        for pattern, field in self._fields:
            if number := pattern.search(line):
                text = number[1].rstrip(".,").replace(",", "")
                found.setdefault(field.quantity, float(text) * field.unit)
        return found
