"""Parameters and secrets: values that are known only when the job is submitted or runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.spec.experiment import Experiment, Parameter
from clusterjobs.spec.references import has_variable, variable
from clusterjobs.yaml.document import Path

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
        if re.fullmatch(pattern, parameter.default):
            return name
    return "text"


def check_parameters(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """A default must be one of its own choices, and of its own type."""
    for name, parameter in experiment.parameters.items():
        path = ("parameters", name)
        pattern = PATTERNS.get(type_of(parameter))
        if has_variable(parameter.default):
            diagnostics.problem(
                (*path, "default"), "a default cannot be another parameter", "write it out"
            )
        elif name in experiment.env and experiment.env[name] != variable(name):
            diagnostics.problem(path, f"{name} is set by env: too", "choose another name for one")
        elif parameter.choices and parameter.default not in parameter.choices:
            known = ", ".join(parameter.choices)
            diagnostics.problem(path, f"the default {parameter.default!r} is not a choice: {known}")
        elif pattern and not re.fullmatch(pattern, parameter.default):
            diagnostics.problem(
                path,
                f"the default {parameter.default!r} is not of type {parameter.type}",
                "change one of the two",
            )


def check_secrets(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """A secret has one source, and is not also a plain variable or a parameter."""
    for name, secret in experiment.secrets.items():
        path = ("secrets", name)
        if secret.file is not None and secret.command is not None:
            diagnostics.problem(
                path, "file and command: a secret comes from one of them", "remove one"
            )
        for other in ("env", "parameters"):
            if name in getattr(experiment, other):
                diagnostics.problem(
                    (other, name), f"{name} is under secrets: too", "remove it here"
                )


# What a shell would have expanded: ${HOME}, $HOME, a leading ~/. Prices such as $5 are not meant.
_SHELLS = re.compile(r"\$\{[A-Za-z_]\w*\}|\$[A-Z_][A-Z0-9_]+\b|^~/")
_WITHOUT_BRACES = re.compile(r"(?<![\\$])\$[A-Z_][A-Z0-9_]+\b")


def check_literal_words(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """What is not expanded although it looks as if it were meant to be: a warning."""
    for path, text in _literal_words(experiment):
        if found := _SHELLS.search(text):
            diagnostics.problem(
                path,
                f"{found[0]} stays as it is here: only paths and env are expanded on the node",
                "use a parameter, or set a variable under env: that the program reads",
                warning=True,
            )
    for path, text in _expanded_words(experiment):
        if found := _WITHOUT_BRACES.search(text):
            name = found[0][1:]
            diagnostics.problem(
                path,
                f"{found[0]} stays as it is: the node expands only ${{{name}}}",
                f"write ${{{name}}}",
                warning=True,
            )


def _literal_words(experiment: Experiment) -> Iterator[tuple[Path, str]]:
    arguments = experiment.args
    named = arguments.items() if isinstance(arguments, dict) else enumerate(arguments)
    for key, value in named:
        texts = value if isinstance(value, tuple) else (value,)
        yield from ((("args", key), text) for text in texts if isinstance(text, str))
    for word in experiment.command or ():
        yield ("command",), word


def _expanded_words(experiment: Experiment) -> Iterator[tuple[Path, str]]:
    for key in ("workdir", "script"):
        yield (key,), getattr(experiment, key) or ""
    yield ("logs", "path"), experiment.logs.path
    for key in ("venv", "conda"):
        yield ("software", key), getattr(experiment.software, key) or ""
    if experiment.checkpoints:
        yield ("checkpoints", "path"), experiment.checkpoints.path
    for name, value in experiment.env.items():
        yield ("env", name), value
