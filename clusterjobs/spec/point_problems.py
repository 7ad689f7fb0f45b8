"""Joins the problems of a sweep's points: the same problem in many points is shown once.

It must not know what the problems are about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from clusterjobs.errors import Problem, in_order

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Found(NamedTuple):
    """A point's name and its problems."""

    point: str
    problems: Iterable[Problem]


def of_points(found: Iterable[Found], total: int) -> list[Problem]:
    """Each problem once, with the names of its points; without names if all `total` have it.

    Problems of one value whose texts differ in numbers alone are the same.
    """
    first: dict[Problem, Problem] = {}
    names: dict[Problem, list[str]] = {}
    for point, problems in found:
        for problem in in_order(problems):
            same = problem._replace(what=_like(problem.what), hint=_like(problem.hint))
            first.setdefault(same, problem)
            names.setdefault(same, []).append(point)
    return in_order(
        problem if len(names[same]) == total else problem._replace(points=tuple(names[same]))
        for same, problem in first.items()
    )


def _like(text: str) -> str:
    return _NUMBER.sub("0", text)
