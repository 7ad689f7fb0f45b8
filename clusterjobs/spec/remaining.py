"""A spec without its wrong values, so that the rest of it can be checked as well.

It knows the paths of problems; it must not know the meaning of any key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Problem
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.validate import OptionModels, validate
from clusterjobs.yaml.document import Path, dotted

_ROUNDS = 5  # removing a value can leave a mapping without a required key


def remaining_experiment(
    data: Any, problems: Iterable[Problem], source: Locator, option_models: OptionModels
) -> tuple[Experiment, SpecModel | None] | None:
    """What the models make of `data` without the values that have problems; None if nothing."""
    for _ in range(_ROUNDS):
        for problem in problems:
            data = _without(data, (), problem.path)
        if not isinstance(data, dict):
            return None
        found: list[Problem] = []
        experiment, options = validate({"name": "unnamed", **data}, source, option_models, found)
        if experiment and not found:
            return experiment, options
        problems = found
    return None


def _without(value: Any, path: Path, wrong: str) -> Any:
    """`value`, which is at `path`, without the value at `wrong`, or what should contain it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    kept = {
        step: _without(item, (*path, step), wrong) if isinstance(item, (dict, list)) else item
        for step, item in items
        if not _is_wrong(item, dotted((*path, step)), wrong)
    }
    return kept if isinstance(value, dict) else list(kept.values())


def _is_wrong(value: Any, path: str, wrong: str) -> bool:
    """Whether `wrong` is the path of this value, or of a key that it lacks."""
    if path == wrong:
        return True
    return wrong.startswith(f"{path}.") and not _has(value, wrong[len(path) + 1 :])


def _has(value: Any, rest: str) -> bool:
    """Whether a mapping has a key that `rest` starts with; a list is searched by its items."""
    if isinstance(value, list):
        return True
    return isinstance(value, dict) and any(
        rest == key or rest.startswith((f"{key}.", f"{key}[")) for key in value
    )
