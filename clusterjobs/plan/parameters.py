"""Parameters: values that may change at submission, so each is typed and checked on the node."""

from __future__ import annotations

import re
from typing import Literal

from clusterjobs.ledger import Ledger
from clusterjobs.spec.experiment import Experiment, Parameter
from clusterjobs.spec.references import has_variable

ParameterType = Literal["text", "integer", "number"]

# The same patterns in Python's and in bash's extended regular expressions.
PATTERNS: dict[ParameterType, str] = {
    "integer": "^[-+]?[0-9]+$",
    "number": r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$",
}


def type_of(parameter: Parameter) -> ParameterType:
    """The declared type, else what the default looks like."""
    if parameter.type:
        return parameter.type
    if parameter.choices:
        return "text"
    for name, pattern in PATTERNS.items():
        if re.search(pattern, parameter.default):
            return name
    return "text"


def check_parameters(experiment: Experiment, ledger: Ledger) -> None:
    """A default must be one of its own choices, and of its own type."""
    for name, parameter in experiment.parameters.items():
        path = ("parameters", name)
        pattern = PATTERNS.get(type_of(parameter))
        if has_variable(parameter.default):
            ledger.problem((*path, "default"), "a default cannot be another parameter")
        elif name in experiment.env:
            ledger.problem(path, f"{name} is set by env: too", "choose another name for one")
        elif parameter.choices and parameter.default not in parameter.choices:
            known = ", ".join(parameter.choices)
            ledger.problem(path, f"the default {parameter.default!r} is not a choice: {known}")
        elif pattern and not re.search(pattern, parameter.default):
            ledger.problem(
                path, f"the default {parameter.default!r} is not of type {parameter.type}"
            )
