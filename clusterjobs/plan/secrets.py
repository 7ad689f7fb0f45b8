"""Secrets: values that the job gets on the node, and that no file of ours ever holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import folder_on_the_node
from clusterjobs.spec import experiment as spec


class Secret(NamedTuple):
    """Where its value comes from: a file, what a command prints, or else the environment."""

    name: str
    file: str | None
    command: tuple[str, ...]


def plan_secrets(
    secrets: Mapping[str, spec.Secret],
    env: Collection[str],
    parameters: Collection[str],
    diagnostics: Diagnostics,
) -> tuple[Secret, ...]:
    """A secret has one source, and is not also a plain variable or a parameter."""
    for name, secret in secrets.items():
        if secret.file is not None and secret.command is not None:
            diagnostics.problem(
                ("secrets", name),
                "file and command: a secret comes from one of them",
                "remove one",
            )
        for key, others in (("env", env), ("parameters", parameters)):
            if name in others:
                diagnostics.problem((key, name), f"{name} is under secrets: too", "remove it here")
    return tuple(
        Secret(name, one.file and folder_on_the_node(one.file), one.command or ())
        for name, one in secrets.items()
    )
