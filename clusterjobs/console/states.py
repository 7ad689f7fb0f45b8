"""One table for several specs or configs: each with its state and its first problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clusterjobs.console.show import printable, table
from clusterjobs.errors import Problem

_MAX_WIDTH = 160


class State(NamedTuple):
    """The state of one file in a word or two; `problem` is the first one, "" if there is none."""

    file: str
    state: str
    problem: str = ""


def states_table(states: Iterable[State]) -> str:
    """The table, with a line of titles."""
    rows = [("file", "state", "first problem"), *states]
    return table([[printable(cell) for cell in row] for row in rows])


def state_of(file: str, problems: Sequence[Problem], fine: str = "ok") -> State:
    """`fails` with its first error; without errors `fine`, with the number of warnings."""
    error = next((problem for problem in problems if not problem.warning), None)
    if error:
        return State(file, "fails", _in_a_line(error))
    count = len(set(problems))
    more = f", warnings and notes: {count}" if count else ""
    return State(file, fine + more)


def _in_a_line(problem: Problem) -> str:
    where = f"{problem.where} " if problem.where else ""
    path = f"{problem.path}: " if problem.path else ""
    text = f"{where}{path}{problem.what}".replace("\n", " ")
    return text if len(text) <= _MAX_WIDTH else f"{text[:_MAX_WIDTH]}..."
