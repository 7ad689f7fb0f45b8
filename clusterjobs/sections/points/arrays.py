"""Makes arrays of jobs of a sweep's points: one for all points of the same shape.

Checks the limits of Slurm's arrays, and derives the directives of one.
Source: sbatch(1), --array; slurm.conf(5), MaxArraySize.
"""

import itertools
import re
from collections.abc import Iterator, Sequence

from clusterjobs.sections.context import PointArray, PointPlan, PointTable
from clusterjobs.sections.placement.node_share import tasks_of_points
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.points import variables_in
from clusterjobs.sections.points.join import Column, Columns, Difference, Values, joined_plan
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.references import as_text
from clusterjobs.text import Text

# ------------------------------------------------------------------ columns
# The texts of the points that share a script, as columns of a table.


def columns_to_extend(table: PointTable) -> Columns:
    """The columns of a table, to join further texts of its points."""
    values = zip(*table.rows, strict=True)
    return columns_of(table.points, table.code, tuple(map(Column, table.columns, values)))


def extended(table: PointTable, columns: Columns) -> PointTable:
    """The table with these columns."""
    names = tuple(one.name for one in columns.columns)
    rows = zip(*(one.values for one in columns.columns), strict=True)
    return table._replace(columns=names, rows=tuple(rows))


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
    table = extended(PointTable((), (), points, indexes, slots, code), columns)
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
