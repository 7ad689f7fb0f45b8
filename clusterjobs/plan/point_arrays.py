"""Joins the plans of a sweep's points: one array of jobs for all points of the same shape.

Plans are compared leaf by leaf. A text that may differ becomes a shell variable, whose values are
in a table of the script; any other difference (nodes, directives) needs a script of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.plan.plan import Plan
from clusterjobs.spec.points import Point


class PointPlan(NamedTuple):
    """A point with its plan. `content`: 16 hex digits, of all that decides what its ranks compute;
    a completed point with another content has to run again."""

    point: Point
    plan: Plan
    content: str


class PointTable(NamedTuple):
    """The values of each task of an array.

    `columns`: shell variables; the first one is `point_name`. `rows`: their values, a row for each
    of `points`. `indexes`: the task of each point (SLURM_ARRAY_TASK_ID).
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    points: tuple[PointPlan, ...]
    indexes: tuple[int, ...]


class PointArray(NamedTuple):
    """One script: a plan with variables in place of what differs, and the table of its points.

    `reason`: why these points have a script of their own ("nodes: 4"); "" if all are in one.
    """

    plan: Plan
    table: PointTable
    reason: str


def point_arrays(
    points: Sequence[PointPlan], max_array_size: int = 1001, separate: bool = False
) -> tuple[PointArray, ...]:
    """The scripts of a sweep, in the order of their first points.

    `max_array_size`: Slurm's MaxArraySize, one more than the largest index. `separate`: a job for
    each point.
    """
    raise NotImplementedError
