"""A point of a sweep, and the problems of several points as one list.

A spec without a sweep has one point, so this is imported at every start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs.errors import Problem, in_order


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    `index` counts from 0 in the order of the spec. `name` is unique, and safe as a file name:
    `0007-lr=3e-4,micro=8-1a2b3c4d`; its last part is `digest`, 8 hex digits of the SHA-256 of
    `values`. The index changes when the sweep is extended in the middle: two names with the same
    digest are the same point. `values`: the swept keys, as paths of the spec, and their values, as
    in `--set`.
    """

    index: int
    name: str
    digest: str
    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name without the index; it does not change when the sweep is extended."""
        return self.name.partition("-")[2]


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Found(NamedTuple):
    """A point's name and its problems."""

    point: str
    problems: Iterable[Problem]


def of_points(found: Iterable[Found], total: int) -> list[Problem]:
    """Each problem once, with the names of its points; without names if all `total` have it.

    Problems of one value whose texts differ in numbers alone are the same. Those of a single point
    stay as they are.
    """
    if total == 1:
        return [problem for one in found for problem in one.problems]
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
