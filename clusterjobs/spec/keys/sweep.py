"""The keys of `sweep:`: which points a spec has, and how they are run.

It knows the keys and the types of single values; `points.py` makes the points of them.
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from clusterjobs.errors import did_you_mean
from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.references import as_text

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


KEY = "sweep"
_MAX_SHOWN = 40  # characters of a value in a hint


def _values(value: Any) -> Any:
    """The values to try."""
    if isinstance(value, dict):
        raise ValueError(
            "expected a list of the values to try: join the keys by dots: args.lr: [1e-3, 1e-4]"
        )
    if not isinstance(value, list):
        text = as_text(value)
        shown = f"[{text}]" if 0 < len(text) <= _MAX_SHOWN else "[a, b]"
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
        raise ValueError(f"not a valid regular expression ({error}): {example}") from None
    if groups != 1:
        found = "no group" if not groups else f"{groups} groups"
        raise ValueError(f"{found}; put exactly one group around the number: {example}")
    return value


def _lists(value: Any) -> Any:
    """Keys of the spec, each with the values to try."""
    if not isinstance(value, dict):
        raise ValueError("expected keys with lists of values: write {args.lr: [1e-3, 1e-4]}")
    return value


_DISTRIBUTIONS = ("uniform", "log_uniform", "int_uniform", "choice")
_TOO_LARGE = 2**53  # numbers are drawn with 53 bits


def _distribution(value: Any) -> dict[str, Any]:
    """One distribution with its bounds or choices: `{log_uniform: [1e-3, 1e-1]}`."""
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError("expected one distribution: write {uniform: [0, 1]}")
    ((name, bounds),) = value.items()
    if name not in _DISTRIBUTIONS:
        raise ValueError(f"unknown distribution {name}: {did_you_mean(name, _DISTRIBUTIONS)}")
    if not isinstance(bounds, list) or not bounds:
        raise ValueError(f"{name} needs a list: write {{{name}: {_example(name)}}}")
    if name != "choice":
        _check_bounds(name, bounds)
    return value


def _example(name: str) -> str:
    examples = {"choice": "[a, b, c]", "int_uniform": "[1, 10]", "log_uniform": "[1e-4, 1e-2]"}
    return examples.get(name, "[0, 1]")


def _check_bounds(name: str, bounds: list[Any]) -> None:
    kind = int if name == "int_uniform" else (int, float)
    if len(bounds) != 2 or not all(
        isinstance(one, kind) and not isinstance(one, bool) and abs(one) < _TOO_LARGE  # also NaN
        for one in bounds
    ):
        what = "integers" if name == "int_uniform" else "numbers"
        raise ValueError(f"{name} needs two {what}: write {{{name}: {_example(name)}}}")
    low, high = bounds
    if name == "log_uniform" and low <= 0:
        raise ValueError(
            f"log_uniform needs numbers above 0: {getattr(low, 'text', low)} has no logarithm"
        )
    if low >= high:
        raise ValueError(f"the first bound is not less than the second: write {_example(name)}")


Values = Annotated[tuple[Any, ...], BeforeValidator(_values)]
Lists = Annotated[dict[str, Values], BeforeValidator(_lists)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1), BeforeValidator(field_types.integer)]


class Sweep(SpecModel):
    """The points: the product of `grid`, `zip` and `samples` of `random`, less `exclude`, plus
    `include`.

    `max_running`: tasks at the same time. `max_failed`: points that may fail before the rest is
    held. `per_node`: points side by side on one node. `array`: false gives each point its own job.
    `metric`: a regular expression with one group, the number to show of a point's log.
    """

    name: field_types.JobName | None = None
    grid: Lists = {}
    zip: Lists = {}
    random: dict[str, Annotated[dict[str, Any], BeforeValidator(_distribution)]] = {}
    samples: Count | None = None
    seed: Seed = 0
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()
    max_running: Count | None = None
    max_failed: Count | None = None
    per_node: Count | None = None
    array: field_types.Flag = True
    metric: Annotated[field_types.Plain, AfterValidator(_metric)] | None = None
