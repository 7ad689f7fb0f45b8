"""A Python script that reads torch.distributed's variables: RANK, WORLD_SIZE, MASTER_ADDR ..."""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import arguments_of, script_of, warn_of_parallel
from clusterjobs.frameworks.base import Framework, Program, Task
from clusterjobs.provenance import Provenance


class Torchrun(Framework):
    """`framework: torchrun`."""

    name = "torchrun"
    launchers = ("torchrun", "srun")
    packages = ("torch",)
    neuron_launchers = ("torchrun",)

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        script = script_of(task.experiment, diagnostics)
        warn_of_parallel(task.experiment, diagnostics)
        if script is None:
            return None
        return Program((script, *arguments_of(task.experiment)), is_python=True)
