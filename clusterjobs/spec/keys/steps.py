"""The keys of a step: a command before, beside or after the training.

It knows the keys and the types of single values; which of them fit together, the plan checks.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from clusterjobs.spec import commands, field_types
from clusterjobs.spec.field_types import Count, Seconds
from clusterjobs.spec.model import SpecModel

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
    """A command that runs once per job, once on every node, or on all ranks.

    `container`: inside the job's container; by default only `per: rank`. `launcher`: what starts
    the ranks, by default the job's launcher. `once`: not again after a restart. `when: always`:
    also if the job has failed. `min_bus_bandwidth`: GB/s that a program of nccl-tests must reach.
    """

    command: commands.Command
    per: Literal["job", "node", "rank"] = "job"
    name: Annotated[str, BeforeValidator(_name)] | None = None
    container: field_types.Flag | None = None
    launcher: Literal["srun"] | None = None
    timeout_seconds: Seconds | None = None
    once: field_types.Flag = False
    when: Literal["success", "always"] = "success"
    min_bus_bandwidth: Count | None = None


Steps = tuple[Annotated[Step, BeforeValidator(_step)], ...]
