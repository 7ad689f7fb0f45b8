"""Mistakes that a framework does not tolerate, as rules: data beside a small function each.

Knows how a rule is stated and reported; it must not know any framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from clusterjobs.diagnostics import Diagnostics
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
