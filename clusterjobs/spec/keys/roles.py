"""The key `roles` of a spec: commands, such as an inference server, on nodes of their own.

It knows what a role is and which names it may have; it must not know how its nodes are chosen.
"""

import re
from typing import Annotated

from pydantic import AfterValidator

from clusterjobs.spec.commands import Command
from clusterjobs.spec.field_types import Count, Port, Seconds
from clusterjobs.spec.model import SpecModel

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
    """A command that runs once on each of its nodes, beside the training, until that has ended.

    `port`: the training starts when each node of the role answers there; `ready_seconds`: the
    timeout.
    """

    nodes: Count = 1
    command: Command
    port: Port | None = None
    ready_seconds: Seconds = 600


Roles = dict[Annotated[str, AfterValidator(role_name)], Role]
