"""The keys of `sweep:`: which points a spec has, and how they are run.

It knows the keys and the types of single values; `points.py` makes the points of them.
"""

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.random_values import distribution
from clusterjobs.spec.references import as_text


def _values(value: Any) -> Any:
    """The values to try."""
    if not isinstance(value, list):
        shown = f"[{as_text(value)}]" if not isinstance(value, dict) else "[a, b]"
        raise ValueError(f"expected a list of the values to try: write {shown}")
    if not value:
        raise ValueError("the list is empty: write the values to try, or remove the key")
    return value


def _metric(value: str) -> str:
    """A regular expression whose one group is a number of the log."""
    example = "write 'loss=([0-9.]+)'"
    try:
        groups = re.compile(value).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression, {error}: {example}") from None
    if groups != 1:
        found = "no group" if not groups else f"{groups} groups"
        raise ValueError(f"{found}, and the one around the number is needed: {example}")
    return value


Values = Annotated[tuple[Any, ...], BeforeValidator(_values)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1), BeforeValidator(field_types.integer)]


class Sweep(SpecModel):
    """The points: the product of `grid`, `zip` and `samples` of `random`, less `exclude`, plus
    `include`.

    `max_running`: tasks at the same time. `max_failed`: points that may fail before the rest is
    held. `per_node`: points side by side on one node. `array`: false gives each point its own job.
    `metric`: a regular expression with one group, the number to show of a point's log.
    """

    name: field_types.JobName | None = None
    grid: dict[str, Values] = {}
    zip: dict[str, Values] = {}
    random: dict[str, Annotated[dict[str, Any], BeforeValidator(distribution)]] = {}
    samples: Count | None = None
    seed: Seed = 0
    include: tuple[dict[str, Any], ...] = ()
    exclude: tuple[dict[str, Any], ...] = ()
    max_running: Count | None = None
    max_failed: Count | None = None
    per_node: Count | None = None
    array: field_types.Flag = True
    metric: Annotated[field_types.Plain, AfterValidator(_metric)] | None = None
