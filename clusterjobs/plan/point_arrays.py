"""Makes arrays of jobs of a sweep's points: one for all points of the same shape.

It knows the limits of Slurm's arrays, and the directives of one.
Source: sbatch(1), --array; slurm.conf(5), MaxArraySize.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterjobs.plan.directives import Directive
from clusterjobs.plan.join_plans import joined_plan
from clusterjobs.plan.packing import tasks_of_points
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.point_groups import groups_of_points
from clusterjobs.plan.point_table import PointPlan, PointTable, columns_of

__all__ = ["PointArray", "PointPlan", "PointTable", "point_arrays"]


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
    if separate:
        arrays = [_array((one,), max_array_size, "array: false") for one in points]
    else:
        groups = groups_of_points(tuple(points))
        parts = (part for group in groups for part in _parts(*group, max_array_size))
        arrays = [_array(part, max_array_size, reason) for part, reason in parts]
    return tuple(sorted(arrays, key=lambda one: one.table.points[0].point.index))


def _parts(
    points: tuple[PointPlan, ...], reason: str, size: int
) -> Iterator[tuple[tuple[PointPlan, ...], str]]:
    """Points for each array, if all are more than one array can have."""
    most = size * points[0].plan.placement.per_node
    if len(points) <= most:
        yield points, reason
        return
    for start in range(0, len(points), most):
        part = points[start : start + most]
        first, last = part[0].point.index, part[-1].point.index
        limit = f"points {first} to {last} (MaxArraySize is {size})"
        yield part, f"{reason}, {limit}" if reason else limit


def _array(points: tuple[PointPlan, ...], max_array_size: int, reason: str) -> PointArray:
    columns = columns_of(points)
    plan = joined_plan([one.plan for one in points], columns).plan
    indexes, slots = _tasks(points, max_array_size)
    table = PointTable((), (), points, indexes, slots).with_columns(columns)
    if table.is_array:
        directives = tuple(_of_an_array(plan, sorted({*indexes})))
        plan = plan._replace(job=plan.job._replace(directives=directives))
    return PointArray(plan, table, reason)


def _tasks(
    points: tuple[PointPlan, ...], max_array_size: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The task of each point, and its slot there if a task has several points."""
    per_node = points[0].plan.placement.per_node
    if per_node > 1:
        tasks, slots = zip(*tasks_of_points(len(points), per_node), strict=True)
        return tasks, slots
    own = tuple(one.point.index for one in points)
    return own if max(own) < max_array_size else tuple(range(len(points))), ()


def _of_an_array(plan: Plan, indexes: Sequence[int]) -> Iterator[Directive]:
    """The directives of the plan as those of an array."""
    limit = plan.sweep.max_running if plan.sweep else None
    for one in plan.job.directives:
        is_ours = (one.name, one.value) == ("output", "%x-%j.out")
        yield one._replace(value="%x-%A_%a.out") if is_ours else one
        if one.name == "job-name":
            value = f"{_ranges(indexes)}%{limit}" if limit else _ranges(indexes)
            is_packed = plan.placement.per_node > 1
            each = f"{plan.placement.per_node} points" if is_packed else "each point"
            yield Directive("array", value, f"a task for {each} of the sweep")


def _ranges(indexes: Sequence[int]) -> str:
    """Indexes as sbatch takes them: `0-3,7,9-11`, or `0-98:2`."""
    steps = {after - before for before, after in itertools.pairwise(indexes)}
    if len(indexes) > 2 and len(steps) == 1 and steps != {1}:
        return f"{indexes[0]}-{indexes[-1]}:{steps.pop()}"
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in runs)
