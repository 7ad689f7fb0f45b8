"""Mistakes that a framework does not tolerate, as rules: rows of data, or a small function each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import Argument
from clusterjobs.frameworks.base import Task
from clusterjobs.yaml.document import Path

T = TypeVar("T", contravariant=True)  # a rule about what is in common is one about each


class Finding(NamedTuple):
    """One mistake of a spec: where it is, what is wrong, and what to write instead.

    `at_key`: it is the key that is wrong, and not its value. `info`: a note.
    """

    path: Path
    what: str
    hint: str
    warning: bool = False
    at_key: bool = False
    info: bool = False


@dataclass(frozen=True)  # not a NamedTuple, which cannot be generic in Python 3.10
class Rule(Generic[T]):
    """A mistake, and the function that finds it in a `T`.

    `mistake` and `consequence` (what the framework does) are a row of docs/frameworks/mistakes.md.
    `warning`: the framework trains all the same, or might. `cases`: what `find` reads in a row.
    """

    mistake: str
    consequence: str
    source: str
    find: Callable[[T], Iterable[Finding]]
    warning: bool = False
    cases: tuple[Case, ...] = ()


def rule(
    mistake: str, consequence: str, source: str, warning: bool = False
) -> Callable[[Callable[[T], Iterable[Finding]]], Rule[T]]:
    """A decorator: the function below becomes a rule."""
    return lambda find: Rule(mistake, consequence, source, find, warning)


def row(
    mistake: str, consequence: str, source: str, *cases: Case, warning: bool = False
) -> Rule[Subject]:
    """A rule that only compares and reports."""
    return Rule(
        mistake, consequence, source, lambda subject: _found(cases, subject), warning, cases
    )


def check_rules(rules: Iterable[Rule[T]], subject: T, diagnostics: Diagnostics) -> None:
    """Report all mistakes that the rules find in `subject`."""
    for finding in findings_of(rules, subject):
        diagnostics.problem(*finding)


def findings_of(rules: Iterable[Rule[T]], subject: T) -> Iterator[Finding]:
    """All mistakes that the rules find in `subject`."""
    for one in rules:
        for finding in one.find(subject):
            yield finding._replace(warning=one.warning)


# ------------------------------------------------------------------ rows


class Case(NamedTuple):
    """One comparison of a row, and what is reported where it holds.

    `at`: names of arguments (`a|b`), each of which is reported if it is given; or a place in the
    spec. `when`: conditions that must all hold, separated by commas; each is a choice of
    comparisons separated by `or`; `not` before a comparison is its opposite:
    - `NAME`: whether it is given
    - `NAME == a|b`, `NAME != a|b`: whether its text is one of these
    - `NAME < OTHER`, also `<=`, `>`, `>=`: of two numbers; false if one is unknown
    - `NAME % OTHER`: it is not a multiple; false if one is unknown
    A NAME is an argument's, `it` for the one at `at`, or a key such as `parallel.tensor`.
    `what` and `hint` are formats with such names, and with `argument` for the name at `at` as it
    is written.
    """

    at: str | Path
    when: str
    what: str
    hint: str


class Subject(Protocol):
    """What a row looks at: the values of arguments or keys by name."""

    def has(self, name: str, /) -> bool:
        """Whether it is given."""

    def text(self, name: str, /) -> str | None:
        """The value as text; None if there is none."""

    def number(self, name: str, /) -> float | None:
        """The value, if it is a number."""

    def path(self, name: str, /) -> Path:
        """The place of a value in the spec."""

    def as_written(self, name: str, /) -> str:
        """The name as it is written there."""

    def shown(self, name: str, /) -> Any:
        """What the name stands for in a message."""


def _found(cases: Iterable[Case], subject: Subject) -> Iterator[Finding]:
    for case in cases:
        names = case.at.split("|") if isinstance(case.at, str) else ("",)
        for name in names:
            if (not name or subject.has(name)) and _holds(case.when, name, subject):
                values = _Shown(subject, name)
                path = subject.path(name) if isinstance(case.at, str) else case.at
                yield Finding(path, case.what.format_map(values), case.hint.format_map(values))


class _Shown(dict[str, Any]):
    """The values that the messages of a case name."""

    def __init__(self, subject: Subject, name: str) -> None:
        super().__init__()
        self._subject = subject
        self._name = name

    def __missing__(self, name: str) -> Any:
        if name == "argument":
            return self._subject.as_written(self._name)
        return self._subject.shown(self._name if name == "it" else name)


_NUMBERS: Mapping[str, Callable[[float, float], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "%": lambda number, other: other and number % other,
}


def _holds(when: str, it: str, subject: Subject) -> bool:
    """Whether all conditions hold, of each one comparison."""
    return not when or all(
        any(_compares(one.split(), it, subject) for one in condition.split(" or "))
        for condition in when.split(", ")
    )


def _compares(comparison: list[str], it: str, subject: Subject) -> bool:
    match [it if part == "it" else part for part in comparison]:
        case [name]:
            return subject.has(name)
        case ["not", *opposite]:
            return not _compares(opposite, it, subject)
        case [name, "==", texts]:
            return subject.text(name) in texts.split("|")
        case [name, "!=", texts]:
            return subject.text(name) not in texts.split("|")
        case [name, sign, other]:
            number = subject.number(name)
            limit = float(other) if other.isdecimal() else subject.number(other)
            return number is not None and limit is not None and bool(_NUMBERS[sign](number, limit))
    raise AssertionError(comparison)


# ------------------------------------------------------------------ arguments


@dataclass(frozen=True)
class GivenArguments:
    """A spec's arguments by name, with underscores, and the rest of the spec.

    A name with a dot that is no argument is a key of the spec, or of the plan: `spec.precision`,
    `env.NCCL_ALGO`, `parallel.tensor`, `model.layers`, `shape.gpus_per_node`.
    """

    task: Task
    arguments: Mapping[str, Argument]

    def has(self, name: str) -> bool:
        """Whether the argument is given, or the key is set."""
        return name in self.arguments or ("." in name and bool(self._key(name)))

    def text(self, name: str) -> str | None:
        """The argument's only value, or the key's."""
        found = self.arguments.get(name)
        if found is None and "." in name:
            value = self._key(name)
            return None if value is None else str(value)
        return found.texts[0] if found and len(found.values) == 1 else None

    def number(self, name: str) -> float | None:
        """The value; None if it is missing, not a number, or known only when the job runs."""
        try:
            return float(self.text(name) or "")
        except ValueError:
            return None

    def path(self, name: str) -> Path:
        """The argument's place in the spec, or the place where it would stand."""
        found = self.arguments.get(name)
        return found.path if found else ("args",)

    def as_written(self, name: str) -> str:
        """The argument's name in `args`."""
        return self.arguments[name].name

    def shown(self, name: str) -> Any:
        """The number of an argument, else its text; for a key's first part, what has the keys."""
        if name in _PARTS:
            return self.part(name)
        number = self.number(name)
        return self.text(name) if number is None else number

    def part(self, name: str) -> Any:
        """What has the keys that begin with this name."""
        return _PARTS[name](self.task)

    def _key(self, name: str) -> Any:
        part, _, key = name.partition(".")
        try:
            owner = self.part(part)
        except KeyError:  # an argument with a dot in its name, which is not given
            return None
        return owner.get(key) if isinstance(owner, Mapping) else getattr(owner, key, None)

    def finding(self, name: str, what: str, hint: str) -> Finding:
        """A mistake at one argument."""
        return Finding(self.path(name), what, hint)


_PARTS: Mapping[str, Callable[[Task], Any]] = {
    "spec": lambda task: task.spec,
    "env": lambda task: task.spec.env,
    "model": lambda task: task.spec.model,
    "parallel": lambda task: task.parallelism,
    "shape": lambda task: task.shape,
    "options": lambda task: task.options,
}
