"""Which points a spec has, and how they are run. `points.py` makes the points."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from clusterjobs.errors import did_you_mean
from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import Key, KeyOfSpec, Only, SpecModel
from clusterjobs.spec.references import as_text

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


KEY = "sweep"
_MAX_SHOWN = 40  # characters of a value in a hint


def _values(value: Any) -> Any:
    if isinstance(value, dict):
        raise ValueError(
            "expected a list of the values to try: join the keys by dots: args.lr: [1e-3, 1e-4]"
        )
    if not isinstance(value, list):
        text = as_text(value)
        if "(" in text:
            raise ValueError(
                f"expected a list of the values to try, and {text!r} is none: write them out, "
                "[1, 2, 3]"
            )
        if found := re.fullmatch(r"([\d.eE+-]*\d)\.\.+([\d.eE+-]+)", text):
            kind = "log_uniform" if "e" in text.lower() else "uniform"
            raise ValueError(
                "expected a list of the values to try, and this is a range: write "
                f"[{found[1]}, {found[2]}], or take samples of it: sweep: {{random: "
                f"{{KEY: {{{kind}: [{found[1]}, {found[2]}]}}}}, samples: 10}}"
            )
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
        numbers = value if isinstance(value, list) and len(value) == 2 else [0, 1]
        is_range = all(isinstance(one, (int, float)) for one in numbers)
        bounds = ", ".join(map(as_text, numbers)) if is_range else "0, 1"
        raise ValueError(f"expected one distribution: write {{uniform: [{bounds}]}}")
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


def _bounds(kind: str, **least: int) -> dict[str, Any]:
    items = {"type": kind, **least}
    return {"type": "array", "items": items, "minItems": 2, "maxItems": 2}


_LIST = {"type": "array", "minItems": 1}
_DISTRIBUTION = {
    "type": "object",
    "properties": {
        "uniform": _bounds("number"),
        "log_uniform": _bounds("number", exclusiveMinimum=0),
        "int_uniform": _bounds("integer"),
        "choice": _LIST,
    },
    "additionalProperties": False,
    "minProperties": 1,
    "maxProperties": 1,
}
_Key = Annotated[str, KeyOfSpec()]
Values = Annotated[tuple[Any, ...], BeforeValidator(_values), Only(_LIST)]
Lists = Annotated[dict[_Key, Values], BeforeValidator(_lists)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1), BeforeValidator(field_types.integer)]


class Sweep(SpecModel):
    """The points: the product of `grid`, `zip` and `samples` of `random`, less `exclude`, plus
    `include`.
    """

    name: Annotated[
        field_types.JobName | None,
        Key(
            "the name of the sweep's folder, `<logs>/<name>/`; `{{ sweep.name }}` in references",
            "learning-rates",
            default_is="the spec's `name`",
        ),
    ] = None
    grid: Annotated[
        Lists,
        Key(
            "keys, each with a list of values: all combinations. The last key varies fastest",
            "{args.lr: [1e-3, 3e-4]}",
            default_is="none",
            also_called=("parameters", "params", "values", "search_space"),
        ),
    ] = {}
    zip: Annotated[
        Lists,
        Key(
            "lists of equal length, combined item by item: the first values together, the second "
            "values together",
            "{model.hidden: [1024, 2048], model.heads: [16, 32]}",
            default_is="none",
        ),
    ] = {}
    random: Annotated[
        dict[
            _Key,
            Annotated[dict[str, Any], BeforeValidator(_distribution), Only(_DISTRIBUTION)],
        ],
        Key(
            "keys with a distribution: `{uniform: [0, 1]}`, `{log_uniform: [1e-5, 1e-2]}`, "
            "`{int_uniform: [1, 10]}` (both bounds included), `{choice: [a, b, c]}`. Numbers are "
            "drawn with 4 significant digits",
            "{args.lr: {log_uniform: [1e-5, 1e-2]}}",
            default_is="none",
        ),
    ] = {}
    samples: Annotated[
        Count | None,
        Key(
            "how many samples of `random` are drawn; each is combined with all of `grid` and `zip`",
            "20",
            default_is="required with `random`",
        ),
    ] = None
    seed: Annotated[
        Seed,
        Key(
            "the same seed gives the same samples everywhere. More `samples` keep the first ones",
            "7",
        ),
    ] = 0
    exclude: Annotated[
        tuple[dict[_Key, Any], ...],
        Key(
            "a list of mappings: a point that has all values of a mapping is removed",
            "[{args.lr: 1e-3, batch.micro: 8}]",
            default_is="none",
        ),
    ] = ()
    include: Annotated[
        tuple[dict[_Key, Any], ...],
        Key(
            "a list of additional points. Each overrides only its own keys of the spec",
            "[{args.lr: 6e-4}]",
            default_is="none",
        ),
    ] = ()
    max_running: Annotated[
        Count | None,
        Key(
            "how many tasks run at the same time",
            "8",
            default_is="no limit",
            also_called=("max_parallel", "concurrency", "max_concurrent"),
        ),
    ] = None
    max_failed: Annotated[
        Count | None,
        Key(
            "once this many points have failed, the pending ones are held",
            "3",
            default_is="no limit",
        ),
    ] = None
    per_node: Annotated[
        Count | None,
        Key(
            "points side by side on one node, each with its share of the GPUs and CPUs",
            "4",
            default_is="1",
            see="packing.md",
        ),
    ] = None
    array: Annotated[
        field_types.Flag, Key("`false`: submits a job for each point, not an array", "false")
    ] = True
    metric: Annotated[
        Annotated[field_types.Plain, AfterValidator(_metric)] | None,
        Key(
            "a regular expression with one group, the number that `status` shows from each point's "
            "log",
            "'loss=([0-9.]+)'",
            default_is="none",
        ),
    ] = None


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    `index` counts from 0 in the order of the spec. `name` is unique, and safe as a file name:
    `0007-lr=3e-4,micro=8-1a2b3c4d`; its last part is `digest`, 8 hex digits of the SHA-256 of
    `values`. The index changes when the sweep is extended in the middle: two names with the same
    digest are the same point. `values`: the swept keys, as paths of the spec, and their values, as
    in `--set`.
    """

    index: int
    name: str
    digest: str
    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name without the index; it does not change when the sweep is extended."""
        return self.name.partition("-")[2]


class SweepKeys:
    """Runs with different values."""

    sweep: Annotated[
        Sweep | None,
        Key(
            "runs of this spec with different values",
            "{grid: {args.lr: [1e-3, 3e-4]}}",
            schedules=True,
            default_is="none",
            fixed_in_sweep=("a sweep cannot change itself", "remove it"),
            see="#sweep",
        ),
    ] = None
