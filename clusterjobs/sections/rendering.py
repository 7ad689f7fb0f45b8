"""What the text of a script is made from: the plans of its points, and a table of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs.script.site.templates import SiteTemplates
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.point import Point
from clusterjobs.text import Value


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
    task, if points are packed; else empty. `code`: that of the site, with whose
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


class PointArray(NamedTuple):
    """One script: a plan with variables in place of what differs, and the table of its points.

    `reason`: why these points have a script of their own ("nodes: 4"); "" if all are in one.
    """

    plan: Plan
    table: PointTable
    reason: str


class Rendering(NamedTuple):
    """What the `render` of each section takes.

    It is a plan, with the spec's file and its `--set` items, and the site's templates.
    `plan_json`: the text of plan.json. `table`: the points of a sweep. `origin`: see Inputs.
    """

    plan: Plan
    spec_file: str
    settings: tuple[str, ...]
    site: SiteTemplates
    plan_json: Value
    table: PointTable | None = None
    origin: str = ""
