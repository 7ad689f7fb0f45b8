"""Checks the values of every section of a defaults.yaml, also of those that no spec uses yet.

It must not know the meaning of any key.
"""

from __future__ import annotations

from typing import Any

from clusterjobs.errors import Problem, in_order
from clusterjobs.spec.defaults import Defaults
from clusterjobs.spec.layers import merge
from clusterjobs.spec.option_models import OptionModels
from clusterjobs.spec.validate import validate


def value_problems(defaults: Defaults, option_models: OptionModels) -> list[Problem]:
    """Problems of single values. Values with a reference can be checked only in a spec."""
    found: list[Problem] = []
    for layer in defaults.sections():
        problems: list[Problem] = []
        merged = merge([layer], problems)
        validate(_without_references(merged.data), merged.source, option_models, problems)
        found += (one for one in problems if not _is_for_the_spec(one))
    return in_order(found)


def _without_references(value: Any) -> Any:
    """The value without keys whose type is known only when references are expanded."""
    if isinstance(value, list):
        return [_without_references(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_references(item)
        for key, item in value.items()
        if not isinstance(item, str) or "{{" not in item
    }


def _is_for_the_spec(problem: Problem) -> bool:
    """Whether a required key is missing, which the spec gives."""
    return problem.what.endswith(" is missing") and problem.what != "the value is missing"
