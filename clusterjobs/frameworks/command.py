"""Any command, once per rank, with the ranks' variables set: for programs of no other framework."""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import arguments_of, check_parallel_arguments
from clusterjobs.frameworks.base import Framework, Program, Task
from clusterjobs.frameworks.mpi_checks import check_mpi
from clusterjobs.provenance import Provenance


class Command(Framework):
    """`framework: command`."""

    name = "command"
    launchers = ("srun", "torchrun", "mpirun")
    neuron_launchers = launchers
    parallel_keys = ("tensor", "pipeline", "context")

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        experiment = task.experiment
        if experiment.script is not None:
            diagnostics.problem(
                ("script",),
                "framework: command runs a command, not a script",
                f"write command: [python3, {experiment.script}], or framework: torchrun",
            )
        check_parallel_arguments(experiment, diagnostics)
        check_mpi(experiment, task.shape.world_size, diagnostics)
        if experiment.command is None:
            diagnostics.missing("command", "command is missing", "add `command: [./train, --fast]`")
            return None
        return Program(experiment.command + arguments_of(experiment), is_python=False)
