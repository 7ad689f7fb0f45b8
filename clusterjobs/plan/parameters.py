"""Parameters: values that can be changed when the job is submitted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import Variable
from clusterjobs.plan.inherited_env import is_unset
from clusterjobs.spec import experiment as spec
from clusterjobs.spec.references import has_variable, variable

# Type -> its description, and its pattern as a regular expression of Python and of bash.
_KINDS = {
    "integer": ("an integer", "^[-+]?[0-9]+$"),
    "number": ("a number", r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"),
    "text": ("a text", ""),
}


class Parameter(NamedTuple):
    """A value must match `pattern` ("" matches anything) and be one of `choices`, if there are any.

    `wanted` describes this for messages: "an integer", "one of a, b".
    """

    name: str
    default: str
    pattern: str
    choices: tuple[str, ...]
    wanted: str


def plan_parameters(
    parameters: Mapping[str, spec.Parameter], env: Mapping[str, str], diagnostics: Diagnostics
) -> tuple[Parameter, ...]:
    """The spec's parameters. Their names must differ from the variables in `env`."""
    for name, one in parameters.items():
        _check(name, one, env, diagnostics)
    return tuple(_parameter(name, one) for name, one in parameters.items())


def variables_of_parameters(
    parameters: Mapping[str, spec.Parameter], env: Mapping[str, str]
) -> tuple[Variable, ...]:
    """The parameters that the ranks also get as environment variables."""
    return tuple(
        Variable(name, variable(name), "the parameter")
        for name, one in parameters.items()
        if one.env and name not in env
    )


def _parameter(name: str, parameter: spec.Parameter) -> Parameter:
    what, pattern = _KINDS[_kind(parameter)]
    choices = parameter.choices
    wanted = f"one of {', '.join(choices)}" if choices else what
    return Parameter(name, parameter.default, pattern, choices, wanted)


def _kind(parameter: spec.Parameter) -> str:
    """The declared type, else the type of the default."""
    if parameter.type or parameter.choices:
        return parameter.type or "text"
    return next(kind for kind in _KINDS if _is_of_kind(parameter.default, kind))


def _is_of_kind(text: str, kind: str) -> bool:
    pattern = _KINDS[kind][1]
    return not pattern or re.fullmatch(pattern, text) is not None


def _check(
    name: str, parameter: spec.Parameter, env: Mapping[str, str], diagnostics: Diagnostics
) -> None:
    """Check that the default is one of the choices, and of the declared type."""
    path, default = ("parameters", name), parameter.default
    if has_variable(default):
        diagnostics.problem(
            (*path, "default"), "a default cannot be another parameter", "write it out"
        )
    elif is_unset(name):
        diagnostics.problem(
            path,
            f"{name} never arrives: the job unsets it first",
            "choose another name, or set it under env:",
        )
    elif name in env and env[name] != variable(name):
        diagnostics.problem(path, f"{name} is set by env: too", "choose another name for one")
    elif parameter.choices and default not in parameter.choices:
        known = ", ".join(parameter.choices)
        diagnostics.problem(path, f"the default {default!r} is not a choice: {known}")
    elif not _is_of_kind(default, _kind(parameter)):
        diagnostics.problem(
            path,
            f"the default {default!r} is not of type {parameter.type}",
            "change one of the two",
        )
