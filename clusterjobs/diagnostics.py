"""Collects the problems of a plan, each with the position of its value in the spec."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, NoReturn, Protocol, TypeVar

from clusterjobs.errors import InputError, Location, Problem, in_order
from clusterjobs.yaml.document import Path, dotted


class Locator(Protocol):
    """Finds the position of a value and of its key in the source file."""

    def locate(self, path: Path) -> Location: ...

    def locate_key(self, path: Path) -> Location: ...


class Diagnostics:
    """Collects all problems, so that they can be reported together."""

    def __init__(self, source: Locator) -> None:
        self._source = source
        self._relocated: dict[Path, Location] = {}
        self._described: dict[str, Path] = {}
        self.problems: list[Problem] = []

    def problem(
        self,
        path: Path,
        what: str,
        hint: str = "",
        warning: bool = False,
        at_key: bool = False,
        info: bool = False,
    ) -> None:
        """Report a problem with the value at `path` of the spec, or with its key."""
        locate = self._source.locate_key if at_key else self._source.locate
        where = self._relocated.get(path) or locate(path)
        self.problems.append(Problem(what, where, dotted(path), hint, warning, info))

    def missing(self, key: str, what: str, hint: str) -> None:
        """Report that the spec lacks the top-level key `key`."""
        self.problems.append(Problem(what, self._source.locate(()), key, hint))

    def add(self, problems: Iterable[Problem]) -> None:
        """Add problems that have their positions already."""
        self.problems += problems

    def relocate(self, path: Path, where: Location) -> None:
        """From now on, report problems of `path` at `where`: the value comes from another file."""
        self._relocated[path] = where

    def where(self, path: Path) -> Location:
        """The position of the value at `path`."""
        return self._source.locate(path)

    def where_key(self, path: Path) -> Location:
        """The position of the key at `path`."""
        return self._relocated.get(path) or self._source.locate_key(path)

    def line_of(self, path: Path) -> str:
        """`exp.yaml:12`, to name a second position in a message."""
        return self._source.locate(path).line_in_file

    def describe_key(self, path: Path) -> str:
        """`model.layers (exp.yaml:12)`; without the line where the spec has no such key."""
        name = dotted(path)
        where = self._source.locate_key(path)
        is_written = where != self._source.locate_key((*path[:-1], "\0"))
        description = f"{name} ({where.line_in_file})" if is_written else name
        self._described[description] = path
        return description

    def described(self, description: str) -> Path | None:
        """The path that `describe_key` has described so."""
        return self._described.get(description)

    @property
    def failed(self) -> bool:
        """Whether one of the problems is an error."""
        return any(not problem.warning for problem in self.problems)

    def stop(self) -> NoReturn:
        """Raise InputError with all problems: what is wrong is needed for everything else."""
        self.raise_if_failed()
        raise AssertionError("stopped without a problem")

    def raise_if_failed(self) -> None:
        """Raise InputError with all problems, warnings included, if one of them is an error."""
        if self.failed:
            raise InputError(in_order(self.problems))


# ------------------------------------------------------------------ provenance
# The derived values of a plan, each recorded once with its reason and source.
# `clusterjobs plan` prints them.


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
