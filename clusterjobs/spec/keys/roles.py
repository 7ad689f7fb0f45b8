"""Commands, such as an inference server, on nodes of their own."""

import re
from typing import Annotated

from pydantic import AfterValidator

from clusterjobs.spec.field_types import Command, Count, Port, Seconds
from clusterjobs.spec.model import Key, SpecModel

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")
_RESERVED = {
    **dict.fromkeys(("training", "ranks"), "the nodes without a role train"),
    "job": "job.log is the log of the job",
}


def role_name(value: str) -> str:
    """A name that is part of variables (CLUSTERJOBS_SERVER_ADDR) and of the name of a log."""
    if not _NAME.fullmatch(value):
        raise ValueError(
            "the name of a role has at most 30 small letters, digits and _, and starts with a "
            "letter: write server"
        )
    if reason := _RESERVED.get(value):
        raise ValueError(f"{value} is reserved: {reason}, so choose another name")
    return value


class Role(SpecModel):
    """A command that runs once on each of its nodes, beside the training, until that has ended."""

    nodes: Annotated[
        Count, Key("how many nodes of the job it has, with all of their GPUs and CPUs", "2")
    ] = 1
    command: Annotated[
        Command,
        Key(
            "runs once on each of them, in the environment, the image and the folder of the ranks",
            "[python3, serve.py]",
        ),
    ]
    port: Annotated[
        Port | None,
        Key(
            "the training starts when each node of the role answers on this port",
            "8000",
            default_is="the training does not wait",
        ),
    ] = None
    ready_seconds: Annotated[Seconds, Key("the timeout for `port`", "1200")] = 600


class RolesKeys:
    """What runs on nodes that do not train."""

    roles: Annotated[
        dict[Annotated[str, AfterValidator(role_name)], Role],
        Key(
            "commands on nodes of their own beside the training, such as an inference server",
            "{server: {nodes: 1, command: [python3, serve.py], port: 8000}}",
            schedules=False,
            default_is="all nodes train",
            references="plan",
            see="roles.md",
        ),
    ] = {}
