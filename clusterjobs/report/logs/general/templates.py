"""Reads lines that differ in their numbers alone: one pattern for each form of a line.

The first line of a form is read by names (`reader.py`). Its text between the numbers becomes a
pattern, whose groups are the numbers. Such a line is read several times faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

_DROPPED = b"0123456789.,+-:/ "  # what differs between lines of one form
_NUMBER = r"[-+]?(?:\d[\d.,:]{0,60}(?:e[-+]?\d{1,4})?|nan|inf)"
STAMP = r"\d{4}[-/]\d\d[-/]\d\d[t _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_SPACES = re.compile(r"(?:\\ )+")
_MOST = 32  # forms that are learned in a log, so that damaged lines do not cost memory
Plan = TypeVar("Plan")


class Templates(Generic[Plan]):
    """The forms of a log's lines, each with a plan of what its numbers mean."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[re.Pattern[bytes], Plan]] = {}

    def find(self, line: bytes) -> tuple[Plan, Sequence[bytes]] | None:
        """The plan of such a line in small letters, and the texts of its numbers."""
        known = self._known.get(line.translate(None, _DROPPED))
        found = known[0].fullmatch(line) if known else None
        return (known[1], found.groups()) if known and found else None

    def learn(
        self, line: str, numbers: Iterable[tuple[int, int]], stamp: tuple[int, int], plan: Plan
    ) -> None:
        """Remember the form of a line. `numbers` and `stamp`: where they stand."""
        key = line.encode().translate(None, _DROPPED)
        if key in self._known or len(self._known) >= _MOST:
            return
        parts, before = [], 0
        spans = sorted([*((span, f"({_NUMBER})") for span in numbers), (stamp, f"(?:{STAMP})")])
        for (start, end), pattern in spans:
            if start < end:
                parts += [_literal(line[before:start]), pattern]
                before = end
        parts.append(_literal(line[before:]))
        self._known[key] = re.compile("".join(parts).encode()), plan


def _literal(text: str) -> str:
    """Exactly this text, but for how many spaces it has."""
    return _SPACES.sub(" *", re.escape(text))
