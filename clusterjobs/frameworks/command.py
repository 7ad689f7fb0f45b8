"""Any command, once per rank, with the ranks' variables set: for programs of no other framework."""

import re
from itertools import takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import arguments_of, check_parallel_arguments
from clusterjobs.frameworks.base import Framework, Program, Shape, Task
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import Value, show
from clusterjobs.yaml.document import Path

# Source: Slurm's guide to MPI. Without PMI or PMIx, each rank of an MPI program is rank 0 of 1
# (Open MPI issue 13523).
_STARTERS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun")
_PACKAGE = "mpi4py"


# Programs that start a process for each GPU of their node, and what starts these in their place.
_OF_A_NODE = {
    "torchrun": "framework: torchrun",
    "torch.distributed.run": "framework: torchrun",
    "torch.distributed.launch": "framework: torchrun",
    "accelerate launch": "framework: accelerate",
    "accelerate.commands.launch": "framework: accelerate",
    "deepspeed": "framework: deepspeed",
    "deepspeed.launcher.runner": "framework: deepspeed",
    "composer": "framework: composer",
    "colossalai run": "framework: torchrun",
    "fabric run": "framework: lightning",
    "lightning run": "framework: lightning",
}
# Those that start the processes of all nodes.
_OF_A_JOB = {
    **dict.fromkeys(_STARTERS, "launcher: mpirun, or srun: {mpi: pmix}"),
    "srun": "launcher: srun",
    "horovodrun": "framework: horovod",
}
_WRAPPERS = re.compile("env|exec|numactl|taskset|nice|time|timeout|nsys|ncu|uv|poetry|pixi|conda")
_CODE = re.compile(r"[;&|(\n]|\b(?:exec|then|do)\b")


class Starter(NamedTuple):
    """A program that starts ranks itself; `instead`: the key of a spec with the same effect."""

    name: str
    instead: str
    starts_all_nodes: bool


def starter_of(command: tuple[Value, ...]) -> Starter | None:
    """What starts ranks in a command, also behind a wrapper such as numactl, and in `bash -c`."""
    words = [show(one) for one in command]
    if len(words) > 2 and PurePosixPath(words[0]).name in ("bash", "sh") and words[1].endswith("c"):
        parts = [one.split() for one in _CODE.split(words[2])]
        return next(filter(None, map(_starter, parts)), None)
    return _starter(words)


def _starter(words: list[str]) -> Starter | None:
    names = [PurePosixPath(one).name for one in words]
    is_wrapped = bool(names) and _WRAPPERS.fullmatch(names[0]) is not None
    for index, name in enumerate(names):
        of_two = " ".join((name, *names[index + 1 : index + 2]))
        options = list(takewhile(lambda one: one.startswith("-"), names[index + 1 :]))
        if name.startswith("python") and options[-1:] == ["-m"]:
            of_two = "".join(names[index + 1 + len(options) :][:1])
        for key in (of_two, name):
            if instead := _OF_A_NODE.get(key) or _OF_A_JOB.get(key):
                return Starter(key, instead, key in _OF_A_JOB)
        is_program = "/" in words[index] or not (name.startswith("-") or is_wrapped)
        if is_program or name.endswith((".py", ".sh")):
            return None  # what follows are its arguments
    return None


def check_starters(
    path: Path, command: tuple[Value, ...], shape: Shape, diagnostics: Diagnostics
) -> bool:
    """Refuse a command that starts ranks itself if each of several ranks would run it."""
    starter = starter_of(command)
    if starter is None:
        return False
    ranks = shape.world_size if starter.starts_all_nodes else shape.ranks_per_node
    whose = "" if starter.starts_all_nodes else " of a node"
    if ranks > 1:
        diagnostics.problem(
            path,
            f"each of the {ranks} ranks{whose} would start {starter.name}",
            f"{starter.instead}, without {starter.name}"
            + ("" if starter.starts_all_nodes else "; or ranks_per_node: 1, to start it yourself"),
        )
    return True


def check_interpreter(path: Path, command: tuple[Value, ...], diagnostics: Diagnostics) -> None:
    """Warn of a Python script that is started as a program: it may not be executable."""
    script = show(command[0]) if command else ""
    if script.endswith(".py"):
        arguments = ", ..." if command[1:] else ""
        diagnostics.problem(
            path,
            f"{script} is started without python: it must be executable and begin with #!"
            + ("" if "/" in script else ", and be in PATH"),
            f"write [python3, {script}{arguments}]",
            warning=True,
        )


def check_mpi(spec: Experiment, shape: Shape, diagnostics: Diagnostics) -> None:
    """Warn of ranks that would all be rank 0."""
    command, requires = spec.command or (), spec.software.requires
    is_by_srun = "mpi" not in spec.srun and spec.launcher in (None, "srun")
    if shape.world_size > 1 and is_by_srun and (_PACKAGE in command or _PACKAGE in requires):
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
        check_interpreter(("command",), spec.command or (), diagnostics)
        if not check_starters(("command",), spec.command or (), task.shape, diagnostics):
            check_mpi(spec, task.shape, diagnostics)
        if spec.command is None:
            diagnostics.missing("command", "command is missing", "add `command: [./train, --fast]`")
            return None
        return Program(spec.command + arguments_of(spec), is_python=False)
