"""Circular needs: the error shows the whole circle.

It knows where each spec says what it needs; it must not know any other key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.errors import InputError, Location, Problem

KEY = "needs"


class Step(NamedTuple):
    """One step in a chain of needs: `file` needs `needs`; `where`: the line of that entry.

    `identity`: of `file`; the same for the same file, however it is named.
    """

    identity: str
    file: str
    needs: str
    where: Location


class CircleError(InputError):
    """Specs need one another, so none of them can start."""


def check_circle(way: Sequence[Step], identity: str) -> None:
    """Raises CircleError if the last step leads back to the spec of that identity."""
    start = next((n for n, step in enumerate(way) if step.identity == identity), None)
    if start is None:
        return
    steps = way[start:]
    told = ", ".join(f"{one.file}:{one.where.line} needs {one.needs}" for one in steps)
    what = f"these specs need one another, so none can start: {told}"
    if len(steps) == 1:
        what = f"{steps[0].file} needs itself"
    hint = "remove this need" if len(steps) == 1 else "remove one of these needs"
    raise CircleError([Problem(what, steps[0].where, KEY, hint)])
