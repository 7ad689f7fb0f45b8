"""Any command, once per rank, with the ranks' variables set: for programs of no other framework."""

from __future__ import annotations

from pathlib import PurePosixPath

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import arguments_of, check_parallel_arguments
from clusterjobs.frameworks.base import Framework, Program, Task
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import show

# Source: Slurm's guide to MPI. Without PMI or PMIx, each rank of an MPI program is rank 0 of 1
# (Open MPI issue 13523).
_STARTERS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
_PACKAGE = "mpi4py"


def check_mpi(spec: Experiment, world_size: int, diagnostics: Diagnostics) -> None:
    """Refuse an mpirun that each rank would start, and warn of ranks that would all be rank 0."""
    if world_size == 1:
        return
    starter = PurePosixPath(show((spec.command or ("",))[0])).name
    if starter in _STARTERS:
        diagnostics.problem(
            ("command",),
            f"each of the {world_size} ranks would start {starter}",
            "launcher: mpirun, and the command without it; or srun: {mpi: pmix} without it",
        )
    elif "mpi" not in spec.srun and spec.launcher in (None, "srun"):
        _warn_without_mpi(spec, diagnostics)


def _warn_without_mpi(spec: Experiment, diagnostics: Diagnostics) -> None:
    command, requires = spec.command or (), spec.software.requires
    if _PACKAGE in command or _PACKAGE in requires:
        diagnostics.problem(
            ("command",) if _PACKAGE in command else ("software", "requires"),
            f"srun starts a program with {_PACKAGE} without PMI: every rank may be rank 0 of 1",
            "srun: {mpi: pmix} for Open MPI, {mpi: pmi2} for MPICH and Intel MPI; {mpi: none} if "
            "its ranks need no MPI; or launcher: mpirun",
            warning=True,
        )


class Command(Framework):
    """`framework: command`."""

    name = "command"
    launchers = ("srun", "torchrun", "mpirun")
    neuron_launchers = launchers
    parallel_keys = ("tensor", "pipeline", "context")

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        spec = task.spec
        if spec.script is not None:
            diagnostics.problem(
                ("script",),
                "framework: command runs a command, not a script",
                f"write command: [python3, {show(spec.script)}], or framework: torchrun",
            )
        check_parallel_arguments(spec, diagnostics)
        check_mpi(spec, task.shape.world_size, diagnostics)
        if spec.command is None:
            diagnostics.missing("command", "command is missing", "add `command: [./train, --fast]`")
            return None
        return Program(spec.command + arguments_of(spec), is_python=False)
