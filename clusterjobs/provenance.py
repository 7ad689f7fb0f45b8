"""The derived values of a plan, each recorded once with its reason and source.

`clusterjobs plan` prints them. Knows nothing of what the values mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar


class Derived(NamedTuple):
    """A value that the user did not write: the reason for it, and the source of the rule."""

    name: str
    value: str | int
    reason: str
    source: str = ""


_Value = TypeVar("_Value", bound=str | int)


class Provenance:
    """Records derived values in the order in which they are derived."""

    def __init__(self) -> None:
        self._entries: dict[str, Derived] = {}

    def record(self, name: str, value: _Value, reason: str, source: str = "") -> _Value:
        """Record a derived value under its unique name, and return it."""
        if name in self._entries:
            raise AssertionError(f"{name} is derived twice: {self._entries[name]}")
        self._entries[name] = Derived(name, value, reason, source)
        return value

    def __iter__(self) -> Iterator[Derived]:
        return iter(self._entries.values())
