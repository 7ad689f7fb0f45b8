"""The keys of `sweep:`: which points a spec has, and how they are run.

It knows the keys and the types of single values; `points.py` makes the points of them.
"""

from __future__ import annotations

from typing import Any

from clusterjobs.spec.field_types import Count, Plain
from clusterjobs.spec.model import SpecModel


class Sweep(SpecModel):
    """The points: the product of `grid`, `zip` and `samples` of `random`, less `exclude`, plus
    `include`.

    `max_running`: tasks at the same time. `max_failed`: points that may fail before the rest is
    held. `per_node`: points side by side on one node. `array`: false gives each point its own job.
    `metric`: a regular expression with one group, the number to show of a point's log.
    """

    name: Plain | None = None
    grid: dict[str, tuple[Any, ...]] = {}
    zip: dict[str, tuple[Any, ...]] = {}
    random: dict[str, dict[str, Any]] = {}
    samples: Count | None = None
    seed: int = 0
    include: tuple[dict[str, Any], ...] = ()
    exclude: tuple[dict[str, Any], ...] = ()
    max_running: Count | None = None
    max_failed: Count | None = None
    per_node: Count | None = None
    array: bool = True
    metric: str | None = None
