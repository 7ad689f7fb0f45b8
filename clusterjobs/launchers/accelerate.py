"""Hugging Face Accelerate's launcher, one per node. Source: accelerate 1.15, commands/launch.py."""

from typing import Annotated, ClassVar

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers import Launched, Launcher, LauncherOptions
from clusterjobs.launchers.torchrun import (
    LABEL,
    NEW_STORE,
    Interval,
    Streams,
    Word,
    check_node_rank,
    check_restarts,
    check_streams,
)
from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Budget
from clusterjobs.spec.model import Key
from clusterjobs.text import Value, expanding, joined

CONFIG_NAME = "accelerate.json"  # in the job's folder, a config file of every framework it starts


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class Options(LauncherOptions):
    """Options of torchrun that accelerate launch passes on."""

    about: ClassVar[Key] = Key(
        "options of the launcher `accelerate`, which are torchrun's",
        "{max_restarts: 1, tee: 3}",
        schedules=False,
        see="frameworks/torchrun.md#options-of-torchrun",
    )

    max_restarts: Annotated[
        Budget, Key("how often a node's launcher starts the ranks again inside an attempt", "1")
    ] = 0
    monitor_interval: Annotated[
        Interval | None, Key("the time between two checks of the ranks", "0.5", unit="seconds")
    ] = None
    role: Annotated[Word | None, Key("the value of `ROLE_NAME` in the ranks", "eval")] = None
    log_dir: Annotated[
        field_types.Path | None, Key("a folder for the ranks' logs", "/fsx/logs/ranks")
    ] = None
    tee: Annotated[
        Streams | None,
        Key("`1` the output, `2` the errors, `3` both: to files and to job.log, labelled", "3"),
    ] = None

    def template(self, name: str) -> str:
        """Restarts need a rendezvous that the nodes can repeat."""
        return f"{name}_c10d" if self.max_restarts else name

    def variables(self) -> tuple[tuple[str, str, str], ...]:
        """A store that restarts can use, and the label of the ranks' lines."""
        store = (NEW_STORE,) if self.max_restarts else ()
        return (*store, LABEL) if (self.tee or "0") != "0" else store

    def words(self, launched: Launched, diagnostics: Diagnostics) -> tuple[Value, ...]:
        """The options, in the order of `accelerate launch --help`."""
        check_streams(ACCELERATE.name, {"tee": self.tee}, launched, diagnostics)
        if self.max_restarts:
            check_restarts(ACCELERATE.name, launched, diagnostics)
            check_node_rank(ACCELERATE.name, launched, diagnostics)
        given = {
            "--tee": self.tee,
            "--log_dir": expanding(self.log_dir) if self.log_dir else None,
            "--role": self.role,
            "--max_restarts": self.max_restarts or None,
            "--monitor_interval": self.monitor_interval,
        }
        return tuple(
            joined(name, "=", str(value) if isinstance(value, (int, float)) else value)
            for name, value in given.items()
            if value is not None
        )


ACCELERATE = Launcher(
    "accelerate",
    "one accelerate launch per node starts the node's ranks",
    starts_python=True,
    no_python_option="--no_python",
    shares_nodes=True,
    label_setting="accelerate: {tee: 3}",
    sets_node_rank=True,
    options=Options,
    argument_check="check_accelerate",
    program_options={
        "num_processes": "world_size",
        "num_machines": "nodes",
        "machine_rank": "",
        "main_process_ip": "",
        "main_process_port": "",
        "multi_gpu": "",
        "deepspeed_hostfile": "",
        "deepspeed_multinode_launcher": "",
        "use_deepspeed": "zero: {stage: 2}",
        "use_fsdp": "fsdp: {}",
    },
)
