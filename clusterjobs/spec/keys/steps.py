"""Commands before, beside and after the training, and on nodes of their own.

The plan checks which keys fit together.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from clusterjobs.spec import field_types
from clusterjobs.spec import field_types as commands
from clusterjobs.spec.field_types import Command, Count, Port, Seconds
from clusterjobs.spec.model import TEXT, TEXTS, Also, Key, Only, SpecModel, text_like

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


_MAX_NAME = 60  # characters: a name is part of a line of the log


def _name(value: Any) -> str:
    text = field_types.plain(value)
    if bad := field_types.first_control_character(text):
        raise ValueError(f"the name contains {bad}: remove it")
    if len(text) > _MAX_NAME:
        raise ValueError(f"a name of more than {_MAX_NAME} characters: shorten it")
    return text


def _step(value: Any) -> Any:
    return value if isinstance(value, dict) else {"command": value}


class Step(SpecModel):
    """A command that runs once per job, once on every node, or on all ranks."""

    command: Annotated[
        commands.Command,
        Key(
            "a program and its arguments: one string, or a list of strings. No shell code: pipes "
            "and redirections are refused",
            "[python3, prepare.py]",
            also_called=("run", "cmd"),
        ),
    ]
    per: Annotated[
        Literal["job", "node", "rank"],
        Key(
            "`job`: once, on the first node. `node`: once on every node. `rank`: on all ranks of "
            "the job, started by the job's launcher",
            "node",
        ),
    ] = "job"
    name: Annotated[
        Annotated[str, BeforeValidator(_name)] | None,
        Key(
            "its name in the log and in messages",
            "prepare",
            default_is="the program and its script: `python3 prepare.py`",
        ),
    ] = None
    container: Annotated[
        field_types.Flag | None,
        Key(
            "`true`: in the job's container; `false`: on the node",
            "true",
            default_is="with `per: rank` `true`, otherwise `false`",
        ),
    ] = None
    launcher: Annotated[
        Literal["srun"] | None,
        Key(
            "`srun`: one task per rank, whichever launcher starts the training (only with "
            "`per: rank`)",
            "srun",
            default_is="the job's launcher",
        ),
    ] = None
    timeout_seconds: Annotated[
        Seconds | None,
        Key(
            "after this time, the program gets SIGTERM and the step fails with exit code 124",
            "600",
            default_is="none; 60 with `when: always`",
        ),
    ] = None
    once: Annotated[
        field_types.Flag,
        Key(
            "`true`: after it has succeeded, it is not repeated after a restart (only in `before`)",
            "true",
        ),
    ] = False
    creates: Annotated[
        field_types.Path | None,
        Key(
            "a file or folder that the step makes: it is left out if this is there (only in "
            "`before`), and fails if this is not there afterwards",
            "/fsx/data/tokens",
            see="steps.md#steps-whose-result-is-there",
        ),
    ] = None
    when: Annotated[
        Literal["success", "always"],
        Key("`always`: at every end of the job, also after a failure (only in `after`)", "always"),
    ] = "success"
    min_bus_bandwidth: Annotated[
        Count | None,
        Key(
            "what a program of nccl-tests must reach (only in `before`)",
            "300",
            unit="GB/s",
            default_is="none",
            see="steps.md#a-test-of-the-network-stops-the-job",
        ),
    ] = None


Steps = tuple[Annotated[Step, BeforeValidator(_step), Also(TEXT, TEXTS)], ...]


class StepsKeys:
    """What runs beside the training."""

    before: Annotated[
        Steps,
        Key(
            "commands before the training: once, on every node, or on all ranks",
            "[{command: [python3, prepare.py], per: node}]",
            schedules=False,
            adds_to="items",
            references="plan",
            see="steps.md",
        ),
    ] = ()
    after: Annotated[
        Steps,
        Key(
            "commands after a successful training; one with `when: always` runs at every end",
            "[{command: [python3, evaluate.py]}]",
            schedules=False,
            adds_to="items",
            references="plan",
            see="steps.md",
        ),
    ] = ()
    sidecars: Annotated[
        Steps,
        Key(
            "commands that run during the training and are stopped with it",
            "[{command: [python3, monitor.py]}]",
            schedules=False,
            adds_to="items",
            references="plan",
            see="steps.md",
        ),
    ] = ()


# ------------------------------------------------------------------ roles
# Commands, such as an inference server, on nodes of their own.


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


RoleName = Annotated[
    str,
    AfterValidator(role_name),
    Only(text_like(rf"(?!(?:{'|'.join(_RESERVED)})$){_NAME.pattern}")),
]


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
        dict[RoleName, Role],
        Key(
            "commands on nodes of their own beside the training, such as an inference server",
            "{server: {nodes: 1, command: [python3, serve.py], port: 8000}}",
            schedules=False,
            default_is="all nodes train",
            references="plan",
            see="roles.md",
        ),
    ] = {}
