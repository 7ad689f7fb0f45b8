"""The checks of every node before the training."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator

from clusterjobs.spec.field_types import Count, Flag
from clusterjobs.spec.model import FLAG, Also, Key, SpecModel

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.

PreflightCheck = Literal[
    "gpus",
    "efa",
    "fabric",
    "memlock",
    "shm",
    "mounts",
    "space",
    "clock",
    "network",
    "names",
    "port",
    "containers",
    "software",
    "build",
    "nccl",
]


def _preflight(value: Any) -> Any:
    """`true` means all checks, a list the ones it names."""
    if isinstance(value, bool):
        return {} if value else None
    if isinstance(value, list):
        return {"checks": value}
    if not isinstance(value, dict):
        raise ValueError(
            "expected true, false or a list of checks: write preflight: true, or [gpus, efa]"
        )
    return value


class Preflight(SpecModel):
    """The checks of every node before the training; by default, all that apply."""

    checks: Annotated[
        tuple[PreflightCheck, ...] | None,
        Key("the names of the checks", "[gpus, efa]", default_is="all that apply"),
    ] = None
    on_bad_node: Annotated[
        Literal["fail", "exclude"],
        Key(
            "`fail`: the job ends. `exclude`: it is requeued without the bad nodes",
            "exclude",
        ),
    ] = "fail"
    free_gib: Annotated[Count, Key("free space required where the job writes", "100")] = 10
    seconds: Annotated[Count, Key("the timeout of the checks", "120")] = 60
    arguments: Annotated[
        bool | Literal["help"],
        Key(
            "ask the framework's own parser about the arguments before anything is staged; `help`: "
            "also look for them in `--help` of a script of your own",
            "false",
        ),
    ] = True
    bandwidth_percent: Annotated[
        Count | None,
        Key(
            "the share of the network's rate that an all-reduce must reach",
            "70",
            default_is="not measured",
        ),
    ] = None


class PreflightKeys:
    """What is checked and shown before the training."""

    header: Annotated[
        Flag,
        Key(
            "print what every node has (GPUs, driver, CPUs, memory, system), and versions of "
            "Python, packages, code and modules, at the start of each attempt",
            "true",
            schedules=True,
            belongs_with=("nodes",),
            see="preflight.md#a-header-without-checks",
        ),
    ] = False

    preflight: Annotated[
        Preflight | None,
        BeforeValidator(_preflight),
        Also(FLAG, {"type": "array", "items": {"enum": [*get_args(PreflightCheck)]}}),
        Key(
            "checks of every node before the training: `true`, a list of checks, or the keys below",
            "[gpus, efa]",
            schedules=True,
            default_is="`false`",
            belongs_with=("nodes",),
            see="preflight.md",
        ),
    ] = None
