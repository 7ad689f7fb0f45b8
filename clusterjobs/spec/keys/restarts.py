"""How often a job resumes from its checkpoints."""

from typing import Annotated, Literal

from clusterjobs.spec.field_types import Budget, Seconds
from clusterjobs.spec.model import Key, SpecModel

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class Restarts(SpecModel):
    """How often the job may resume from its checkpoints, for each reason that an attempt ends."""

    time_limit: Annotated[Budget, Key("maximum number of restarts after the time limit", "5")] = 0
    failure: Annotated[Budget, Key("... after a crash", "1")] = 0
    node_failure: Annotated[
        Budget,
        Key("... after Slurm lost a node, or all ranks were gone while their launcher waited", "5"),
    ] = 3
    stalled: Annotated[
        Budget, Key("... after the ranks made no progress for `stall_seconds`", "1")
    ] = 3
    stall_seconds: Annotated[
        Seconds | None,
        Key("stop ranks that make no progress for so long", "1800", default_is="none"),
    ] = None
    grace_seconds: Annotated[
        Seconds, Key("how long the ranks have to save and end before the limit", "300")
    ] = 180
    signal: Annotated[
        Literal["USR1", "USR2", "TERM"] | None,
        Key(
            "`USR1`, `USR2` or `TERM`, also sent to the ranks (`launcher: srun`)",
            "USR1",
            default_is="none",
        ),
    ] = None


class RestartsKeys:
    """What happens after an attempt has ended."""

    restarts: Annotated[
        Restarts | None,
        Key(
            "how often the job may restart from its `checkpoints`",
            "{time_limit: 5}",
            schedules=True,
            default_is="with `checkpoints`, Slurm requeues the job after a lost node",
            belongs_with=("time",),
            is_section=True,
            beside={"signal": "restarts: {signal: USR1}"},
            see="restarts.md",
        ),
    ] = None
