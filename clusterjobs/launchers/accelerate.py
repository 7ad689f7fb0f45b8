"""Hugging Face Accelerate's launcher, one per node. Source: accelerate 1.15, commands/launch.py."""

from typing import Annotated, ClassVar

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers import Launched, Launcher, LauncherOptions
from clusterjobs.launchers.torchrun import (
    LABEL,
    NEW_STORE,
    TORCHRUN,
    LogDir,
    MaxRestarts,
    MonitorInterval,
    Role,
    Tee,
    check_node_rank,
    check_restarts,
    check_streams,
)
from clusterjobs.spec import field_types
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

    max_restarts: MaxRestarts = 0
    monitor_interval: MonitorInterval = None
    role: Role = None
    log_dir: LogDir = None
    tee: Tee = None
    gradient_accumulation_steps: Annotated[
        field_types.AnyText | None,
        Key(
            "the option of that name, for a Trainer with DeepSpeed whose number a command finds",
            '"{{ values.accumulation }}"',
            default_is="of the config file",
        ),
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
            "--gradient_accumulation_steps": self.gradient_accumulation_steps,
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
    variables_of_options=("ACCELERATE_", "FSDP_", *TORCHRUN.variables_of_options),
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
