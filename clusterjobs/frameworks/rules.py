"""Mistakes that a framework does not tolerate, as rules: data beside a small function each.

Knows how a rule is stated and reported; it must not know any framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import Argument
from clusterjobs.frameworks.base import Task
from clusterjobs.yaml.document import Path

T = TypeVar("T", contravariant=True)  # a rule about what is in common is one about each


class Finding(NamedTuple):
    """One mistake of a spec: where it is, what is wrong, and what to write instead.

    `at_key`: it is the key that is wrong, and not its value.
    """

    path: Path
    what: str
    hint: str
    warning: bool = False
    at_key: bool = False


@dataclass(frozen=True)  # not a NamedTuple, which cannot be generic in Python 3.10
class Rule(Generic[T]):
    """A mistake, and the function that finds it in a `T`.

    `mistake` and `consequence` (what the framework does) are a row of docs/frameworks/mistakes.md.
    `warning`: the framework trains all the same, or might.
    """

    mistake: str
    consequence: str
    source: str
    find: Callable[[T], Iterable[Finding]]
    warning: bool = False


def rule(
    mistake: str, consequence: str, source: str, warning: bool = False
) -> Callable[[Callable[[T], Iterable[Finding]]], Rule[T]]:
    """A decorator: the function below becomes a rule."""
    return lambda find: Rule(mistake, consequence, source, find, warning)


def check_rules(rules: Iterable[Rule[T]], subject: T, diagnostics: Diagnostics) -> None:
    """Report all mistakes that the rules find in `subject`."""
    for finding in findings_of(rules, subject):
        diagnostics.problem(*finding)


def findings_of(rules: Iterable[Rule[T]], subject: T) -> Iterator[Finding]:
    """All mistakes that the rules find in `subject`."""
    for one in rules:
        for finding in one.find(subject):
            yield finding._replace(warning=one.warning)


# ------------------------------------------------------------------ given
#
# The arguments of a spec, as rules about a framework's arguments look at them.
#
# Knows how arguments are written; it


@dataclass(frozen=True)
class GivenArguments:
    """A spec's arguments by name, with underscores, and the rest of the spec."""

    task: Task
    arguments: Mapping[str, Argument]

    def has(self, name: str) -> bool:
        """Whether the argument is given."""
        return name in self.arguments

    def text(self, name: str) -> str | None:
        """The argument's only value."""
        found = self.arguments.get(name)
        return found.values[0] if found and len(found.values) == 1 else None

    def number(self, name: str) -> float | None:
        """The value; None if it is missing, not a number, or known only when the job runs."""
        try:
            return float(self.text(name) or "")
        except ValueError:
            return None

    def path(self, name: str) -> Path:
        """Where the argument is, or where it would be."""
        found = self.arguments.get(name)
        return found.path if found else ("args",)

    def finding(self, name: str, what: str, hint: str) -> Finding:
        """A mistake at one argument."""
        return Finding(self.path(name), what, hint)
