"""Every derived value written down once, with its reason and source; and what was found wrong.

The plan and the frameworks write into one ledger, and `clusterjobs plan` prints it. It knows
where the spec's values stand, and nothing of what they mean.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from clusterjobs.errors import InputError, Location, Problem, in_order
from clusterjobs.yaml_source import Path, dotted


class Locator(Protocol):
    """Says where a value and its key were written."""

    def locate(self, path: Path) -> Location: ...

    def locate_key(self, path: Path) -> Location: ...


class Derived(NamedTuple):
    """A value that nobody had to write: why it is so, and who says that it must be."""

    name: str
    value: str | int
    reason: str
    source: str = ""


_Value = TypeVar("_Value", bound=str | int)


class Ledger:
    """Collects derived values and problems while a plan is made."""

    def __init__(self, source: Locator) -> None:
        self._source = source
        self.derived: list[Derived] = []
        self.problems: list[Problem] = []
        self._elsewhere: dict[Path, Location] = {}

    def derive(self, name: str, value: _Value, reason: str, source: str = "") -> _Value:
        """Write a derived value down, and hand it back."""
        self.derived.append(Derived(name, value, reason, source))
        return value

    def problem(self, path: Path, what: str, hint: str = "", warning: bool = False) -> None:
        """Something is wrong with the spec's value at `path`."""
        where = self._elsewhere.get(path) or self._source.locate(path)
        self.problems.append(Problem(what, where, dotted(path), hint, warning))

    def stands_at(self, path: Path, where: Location) -> None:
        """The value at `path` is not the spec's own: it stands in another file."""
        self._elsewhere[path] = where

    def missing(self, key: str, what: str, hint: str) -> None:
        """The spec lacks a top-level key that it needs."""
        self.problems.append(Problem(what, self._source.locate(()), key, hint))

    def where(self, path: Path) -> Location:
        """Where the spec's value at `path` stands, for a problem that is found later."""
        return self._source.locate(path)

    def line_of(self, path: Path) -> str:
        """`exp.yaml:12`, to name a second place in a message."""
        where = self._source.locate(path)
        return f"{where.file}:{where.line}"

    def place_of(self, path: Path) -> str:
        """`model.layers (exp.yaml:12)`: the key's name, with its line if it is written at all."""
        name = dotted(path)
        where = self._source.locate_key(path)
        is_written = where != self._source.locate_key((*path[:-1], "\0"))
        return f"{name} ({where.file}:{where.line})" if is_written else name

    @property
    def failed(self) -> bool:
        return any(not problem.warning for problem in self.problems)

    def raise_problems(self) -> None:
        """Raise InputError, with the warnings too, if anything is wrong."""
        if self.failed:
            raise InputError(in_order(self.problems))
