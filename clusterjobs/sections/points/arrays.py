"""Makes arrays of jobs of a sweep's points: one for all points of the same shape.

Checks the limits of Slurm's arrays, and derives the directives of one.
Source: sbatch(1), --array; slurm.conf(5), MaxArraySize.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs.frameworks.base import folder_on_the_node
from clusterjobs.sections.context import Context
from clusterjobs.sections.placement.node_share import tasks_of_points
from clusterjobs.sections.plan import POINT, Plan, SweepJob
from clusterjobs.sections.points.join import Column, Columns, Difference, Values, joined_plan
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.points import Point
from clusterjobs.spec.references import as_text
from clusterjobs.text import Text, Value, joined, variable, variable_names

# ------------------------------------------------------------------ point table
# The points that share a script, and the table of their values in it.


@dataclass(frozen=True)
class PointPlan:
    """A point with its plan. `content`: 16 hex digits, of all that decides what its ranks compute;
    a completed point with another content has to run again."""

    point: Point
    plan: Plan
    content: str

    @property
    def name(self) -> str:
        """Of a sweep's point, `0007-lr=3e-4-1a2b3c4d`; without a sweep, the job's."""
        return self.point.name

    @property
    def index(self) -> int:
        """From 0, in the order of the spec."""
        return self.point.index

    @property
    def values(self) -> Mapping[str, Any]:
        """The swept keys and their values; empty without a sweep."""
        return self.point.values


class PointTable(NamedTuple):
    """The values of each task of an array.

    `columns`: shell variables; the first one is `point_name`. `rows`: their values, a row for each
    of `points`. `indexes`: the task of each point (SLURM_ARRAY_TASK_ID). `slots`: its place in its
    task, if points are packed (`packing.py`); else empty. `code`: that of the site, with whose
    variables no column shares its name.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    points: tuple[PointPlan, ...]
    indexes: tuple[int, ...]
    slots: tuple[int, ...] = ()
    code: str = ""

    @property
    def is_array(self) -> bool:
        """Whether it is an array of jobs; a single point is a plain job."""
        return len(self.points) > 1 or bool(self.slots)

    @property
    def keys(self) -> tuple[str, ...]:
        """What `read_point` gets: the task of each point, `3`; `3.0` if it has several points."""
        if not self.slots:
            return tuple(map(str, self.indexes))
        return tuple(f"{a}.{b}" for a, b in zip(self.indexes, self.slots, strict=True))

    def to_extend(self) -> Columns:
        """Its columns, to join further texts of its points."""
        values = zip(*self.rows, strict=True)
        return columns_of(self.points, self.code, tuple(map(Column, self.columns, values)))

    def with_columns(self, columns: Columns) -> PointTable:
        """The table with these columns."""
        names = tuple(one.name for one in columns.columns)
        rows = zip(*(one.values for one in columns.columns), strict=True)
        return self._replace(columns=names, rows=tuple(rows))


def columns_of(
    points: Sequence[PointPlan], code: str = "", fixed: Sequence[Column] = ()
) -> Columns:
    """Columns for texts of these points, which may contain swept values and derived ones.

    `code`: of the site; its variables keep their names for themselves.
    """
    names = Column("point_name", tuple(one.point.name for one in points))
    known = [*swept_values(points), *_derived_values(points)]
    return Columns(fixed or [names], known, _taken_names(points[0].plan, code))


def swept_values(points: Sequence[PointPlan]) -> Iterator[tuple[str, Values]]:
    """The swept keys that have a single value in all of the points, and these values as written."""
    for key in points[0].point.values:
        values = [one.point.values.get(key, {}) for one in points]
        if any(isinstance(value, (dict, list, tuple, Text)) for value in values):
            continue
        texts = tuple(map(as_text, values))
        if not any("{{" in text for text in texts):
            yield key, texts


_DOTTED = re.compile(r"[\w.-]+")


def _derived_values(points: Sequence[PointPlan]) -> Iterator[tuple[str, Values]]:
    values = [{one.name: one.value for one in point.plan.derived} for point in points]
    for name in values[0]:
        if _DOTTED.fullmatch(name) and all(name in one for one in values):
            yield name, tuple(str(one[name]) for one in values)


def variables_in(value: object) -> Iterator[str]:
    """The names of all shell variables in the texts of a plan."""
    if isinstance(value, Text):
        yield from variable_names(value)
    elif isinstance(value, tuple):
        for one in value:
            yield from variables_in(one)


def _taken_names(plan: Plan, code: str) -> set[str]:
    """Names of variables that the job uses, the user's own code included."""
    environment = plan.environment
    code = "\n".join(
        (code, *environment.site_setup, *environment.software_setup, *environment.setup)
    )
    return {
        *(one.name for one in environment.variables),
        *(one.name for one in environment.secrets),
        *variables_in(plan),  # {{ env.data }} is a variable of the node
        *re.findall(r"[A-Za-z_][A-Za-z0-9_]*", code),
    }


# ------------------------------------------------------------------ point groups
# Which points of a sweep can share a script, and why the others cannot.


# Path in a plan -> key of the spec; well-known keys first.
_KEYS = {
    "placement.shape.nodes": "nodes",
    "placement.shape.gpus_per_node": "gpus_per_node",
    "placement.shape.ranks_per_node": "ranks_per_node",
    "placement.partition": "queue",
    "job.framework": "framework",
}
# The same for everything below a path.
_SECTIONS = {
    "environment.variables": "env",
    "environment.software_setup": "software.setup",
    "environment.setup": "setup",
    "environment": "software",
    "staging.data": "data",
    "launch": "command",
    "steps.": "",
    "job.": "",
}


def groups_of_points(
    points: tuple[PointPlan, ...], reason: str = ""
) -> Iterator[tuple[tuple[PointPlan, ...], str]]:
    """The points of each script, and the reason for it: "nodes: 4"."""
    differences = joined_plan([one.plan for one in points], columns_of(points)).differences
    if not differences:
        yield points, reason
        return
    keys = [repr([one.values[number] for one in differences]) for number in range(len(points))]
    chosen = _telling(keys, points, differences)
    groups: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    for numbers in groups.values():
        own = ", ".join(_in_words(one, numbers[0]) for one in chosen)
        joined = f"{reason}, {own}" if reason else own
        yield from groups_of_points(tuple(points[number] for number in numbers), joined)


def _telling(
    keys: Sequence[str], points: Sequence[PointPlan], differences: Sequence[Difference]
) -> list[Difference]:
    """The fewest differences that distinguish the groups; well-known keys first."""
    candidates = [
        *(one for path in _KEYS for one in differences if one.path == path),
        *(one for one in differences if one.path.startswith("--")),
        *(Difference(key, values) for key, values in swept_values(points)),
        *differences,
    ]
    chosen: list[Difference] = []
    told = [""] * len(keys)
    for one in candidates:
        texts = list(map(repr, one.values))
        finer = [f"{before};{text}" for before, text in zip(told, texts, strict=True)]
        differs_in_a_group = len(set(zip(keys, texts, strict=True))) > len(set(keys))
        if not differs_in_a_group and len(set(finer)) > len(set(told)):
            told = finer
            chosen.append(one)
    return chosen


def _in_words(difference: Difference, number: int) -> str:
    name, value = _name(difference.path), difference.values[number]
    if isinstance(value, bool) or value is None:
        return f"{name}: {'yes' if value else 'no'}"
    return f"{name}: {' '.join(str(value).split())[:60]}"


def _name(path: str) -> str:
    if path in _KEYS:
        return _KEYS[path]
    section = next((one for one in _SECTIONS if path.startswith(one)), None)
    if section is None or path.startswith("--"):
        return path.replace(".*", "")
    return _SECTIONS[section] or path.removeprefix(section).partition(".")[0]


class PointArray(NamedTuple):
    """One script: a plan with variables in place of what differs, and the table of its points.

    `reason`: why these points have a script of their own ("nodes: 4"); "" if all are in one.
    """

    plan: Plan
    table: PointTable
    reason: str


def point_arrays(
    points: Sequence[PointPlan],
    max_array_size: int = 1001,
    separate: bool = False,
    code: str = "",
) -> tuple[PointArray, ...]:
    """The scripts of a sweep, in the order of their first points.

    `max_array_size`: Slurm's MaxArraySize, one more than the largest index. `separate`: a job for
    each point. `code`: bash of the site, with whose variables the points' must not be mixed up.
    """
    if separate:
        arrays = [_array((one,), max_array_size, code, "array: false") for one in points]
    else:
        groups = groups_of_points(tuple(points))
        parts = (part for group in groups for part in _parts(*group, max_array_size))
        arrays = [_array(part, max_array_size, code, reason) for part, reason in parts]
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


def _array(
    points: tuple[PointPlan, ...], max_array_size: int, code: str, reason: str
) -> PointArray:
    columns = columns_of(points, code)
    plan = joined_plan([one.plan for one in points], columns).plan
    indexes, slots = _tasks(points, max_array_size)
    table = PointTable((), (), points, indexes, slots, code).with_columns(columns)
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
    limit = plan.points.max_running if plan.points else None
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


# ------------------------------------------------------------------ plan
# The sweep that a job belongs to: its name and folder, and the variables for the ranks.


def plan(context: Context) -> SweepJob | None:
    """The section `points`; None without a sweep."""
    spec, sweep = context.spec, context.spec.sweep
    if sweep is None:
        return None
    name = sweep.name or spec.name
    folder = folder_on_the_node(joined(spec.logs.path, "/", name))
    return SweepJob(name, folder, sweep.max_running, sweep.max_failed)


def job_folder(spec: Experiment, sweep: SweepJob | None) -> Value:
    """The job's own folder: of a sweep's job, below that of its point."""
    if sweep:
        return joined(sweep.folder, "/", POINT, "/", variable("SLURM_JOB_ID"))
    return folder_on_the_node(joined(spec.logs.path, "/${SLURM_JOB_ID}"))
