"""Secrets: values that the job reads on the node. No rendered file contains them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import folder_on_the_node
from clusterjobs.plan.inherited_env import is_unset
from clusterjobs.spec import experiment as spec


class Secret(NamedTuple):
    """Its value comes from a file, from a command's output, or else from the environment."""

    name: str
    file: str | None
    command: tuple[str, ...]


def plan_secrets(
    secrets: Mapping[str, spec.Secret],
    env: Collection[str],
    parameters: Collection[str],
    diagnostics: Diagnostics,
) -> tuple[Secret, ...]:
    """The secrets. Each has one source, and no plain variable or parameter has its name."""
    for name, secret in secrets.items():
        if secret.file is not None and secret.command is not None:
            diagnostics.problem(
                ("secrets", name),
                "file and command: a secret comes from one of them",
                "remove one",
            )
        if secret.file is None and secret.command is None and is_unset(name):
            diagnostics.problem(
                ("secrets", name),
                f"{name} never arrives: the job unsets it first",
                "choose another name, or read the secret from a file",
            )
        for key, others in (("env", env), ("parameters", parameters)):
            if name in others:
                diagnostics.problem((key, name), f"{name} is under secrets: too", "remove it here")
    return tuple(
        Secret(name, one.file and folder_on_the_node(one.file), one.command or ())
        for name, one in secrets.items()
    )
