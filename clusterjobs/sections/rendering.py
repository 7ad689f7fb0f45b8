"""What the text of a script is made from: each section's `render` takes it."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.script.site.templates import SiteTemplates
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.points.arrays import PointTable
from clusterjobs.text import Value


class Rendering(NamedTuple):
    """A plan, with the spec's file and its `--set` items, and the site's templates.

    `plan_json`: the text of plan.json. `table`: the points of a sweep.
    """

    plan: Plan
    spec_file: str
    settings: tuple[str, ...]
    site: SiteTemplates
    plan_json: Value
    table: PointTable | None = None
