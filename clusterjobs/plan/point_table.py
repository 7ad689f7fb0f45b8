"""The points that share a script, and the table of their values in it.

It knows which values of a point its texts may contain; it must not know how plans are joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterjobs.plan.join_texts import Column, Columns, Values
from clusterjobs.plan.plan import Plan
from clusterjobs.spec.points import Point
from clusterjobs.spec.references import as_text, has_variable, variable_names


class PointPlan(NamedTuple):
    """A point with its plan. `content`: 16 hex digits, of all that decides what its ranks compute;
    a completed point with another content has to run again."""

    point: Point
    plan: Plan
    content: str


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
        if any(isinstance(value, (dict, list, tuple)) for value in values):
            continue
        texts = tuple(map(as_text, values))
        if not any("{{" in text or has_variable(text) for text in texts):
            yield key, texts


_DOTTED = re.compile(r"[\w.-]+")


def _derived_values(points: Sequence[PointPlan]) -> Iterator[tuple[str, Values]]:
    values = [{one.name: one.value for one in point.plan.derived} for point in points]
    for name in values[0]:
        if _DOTTED.fullmatch(name) and all(name in one for one in values):
            texts = tuple(str(one[name]) for one in values)
            if not any(map(has_variable, texts)):
                yield name, texts


def variables_in(value: object) -> Iterator[str]:
    """The names of all shell variables in the texts of a plan."""
    if isinstance(value, str):
        if has_variable(value):
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
