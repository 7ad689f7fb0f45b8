"""A spec without its wrong values, so that the rest of it can be checked as well.

It knows the paths of problems; it must not know the meaning of any key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Problem
from clusterjobs.spec.option_models import OptionModels
from clusterjobs.spec.validate import Validated, validate
from clusterjobs.yaml.document import Path, dotted

_ROUNDS = 5  # removing a value can leave a mapping without a required key
_MANY = 100  # enough for one round of corrections; each takes time


def remaining_experiment(
    data: Any, problems: Sequence[Problem], source: Locator, option_models: OptionModels
) -> Validated | None:
    """What the models make of `data` without the values that have problems; None if nothing."""
    for _ in range(_ROUNDS if len(problems) <= _MANY else 0):
        data = _without(data, {problem.path for problem in problems})
        found: list[Problem] = []
        valid = validate({"name": "unnamed", **data}, source, option_models, found)
        if valid.experiment and not found:
            return valid
        problems = found
    return None


def _without(data: dict[str, Any], wrong: set[str]) -> Any:
    """`data` without the values at these paths; without the mapping that lacks a key of them."""
    there: set[str] = set()
    _kept(data, (), wrong, there)
    lacking = {path.rpartition(".")[0] for path in wrong - there}
    return _kept(data, (), wrong | lacking, there)


def _kept(value: Any, path: Path, wrong: set[str], found: set[str]) -> Any:
    """The value at `path` without what is `wrong` in it, which is added to `found`."""
    if not isinstance(value, (dict, list)):
        return value
    kept = {}
    for step, item in value.items() if isinstance(value, dict) else enumerate(value):
        name = dotted((*path, step))
        if name in wrong:
            found.add(name)
        else:
            kept[step] = _kept(item, (*path, step), wrong, found)
    return kept if isinstance(value, dict) else list(kept.values())
