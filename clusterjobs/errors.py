"""What can be wrong with an input, kept apart from how it is printed.

This layer knows what a problem is; it must not know any file format, nor print.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Location(NamedTuple):
    """A span of one source line. `line` and `column` count from 1, in characters."""

    file: str
    line: int
    column: int
    source: str = ""
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(NamedTuple):
    """One thing that is wrong: `what`, `where` it stands, and a `hint` on what to do.

    `path` is the dotted path of the value (`batch.global`). Without a `where` the problem
    concerns the whole input. A warning is shown but stops nothing; `info` is a warning that asks
    for nothing either. `validator` is the name of the foreign check that said it.
    """

    what: str
    where: Location | None = None
    path: str = ""
    hint: str = ""
    warning: bool = False
    info: bool = False
    validator: str = ""


class InputError(Exception):
    """The user's input is wrong; carries every problem that was found, never only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.what for problem in self.problems))


def one_problem(
    what: str, where: Location | None = None, path: str = "", hint: str = ""
) -> InputError:
    """An InputError with a single problem."""
    return InputError([Problem(what, where, path, hint)])


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems as they stand in the files, one for each value, and rather an error."""
    first: dict[object, Problem] = {}
    for problem in sorted(problems, key=lambda one: one.warning):
        first.setdefault((problem.where, problem.path) if problem.path else problem, problem)
    return sorted(first.values(), key=_reading_order)


def _reading_order(problem: Problem) -> tuple[bool, str, int, int]:
    where = problem.where
    return (True, "", 0, 0) if where is None else (False, where.file, where.line, where.column)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` that `word` was probably meant to be."""
    import difflib  # not for a spec that has no mistake

    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint that names the nearest of `known`, and otherwise all of them."""
    if match := nearest(word, known):
        return f"did you mean {match}?"
    return "known: " + ", ".join(known) if known else ""
