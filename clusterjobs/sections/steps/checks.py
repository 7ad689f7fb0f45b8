"""Which keys of a step fit together, and with the job's launcher and container.

It must not know how a script runs a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from clusterjobs.counted import counted
from clusterjobs.launchers import LAUNCHERS, Launcher
from clusterjobs.sections.context import Context
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.steps import Step
from clusterjobs.text import Value, file_name, show
from clusterjobs.yaml.document import Path

_Placed = tuple[str, Path, Step]  # the key of the list, the path of the step


def check_steps(context: Context) -> None:
    """Check the steps of all lists."""
    for key, path, step in _steps(context.spec):
        _check_list(context, key, path, step)
        _check_launcher(context, key, path, step)
        _check_container(context, key, path, step)
        _check_srun(context, key, path, step)
        _check_sizes(context, path, step)


def _steps(spec: Experiment) -> Iterator[_Placed]:
    for key in ("before", "sidecars", "after"):
        for index, step in enumerate(getattr(spec, key)):
            yield key, (key, index), step


# Key of a step -> (the only list that may have it, what it is for).
_ONLY = {
    "once": ("before", "only a step before the training runs again after a restart"),
    "min_bus_bandwidth": ("before", "it stops the job before the training"),
    "when": ("after", "only a step after the training depends on how that has ended"),
}


def _check_list(context: Context, key: str, path: Path, step: Step) -> None:
    for name, (where, reason) in _ONLY.items():
        if key != where and name in step.model_fields_set:
            context.problem(
                (*path, name), f"{key} has no {name}: {reason}", f"move the step to {where}:"
            )


def _check_launcher(context: Context, key: str, path: Path, step: Step) -> None:
    if step.per == "rank":
        launcher = LAUNCHERS[step.launcher] if step.launcher else context.launcher
        _check_ranks(context, key, path, step, launcher)
    elif step.launcher:
        what = f"per: {step.per} needs no launcher"
        context.problem((*path, "launcher"), what, "add per: rank")


_BY_SRUN = "add launcher: srun to this step, which starts one task per rank; or per: node"


def _check_ranks(context: Context, key: str, path: Path, step: Step, launcher: Launcher) -> None:
    per, name = (*path, "per"), launcher.name
    if step.when == "always":
        what = "no ranks can be started once a job is cancelled or at its time limit"
        context.problem(per, what, "per: node, or leave out when: always")
    elif not launcher.runs_commands:
        context.problem(per, f"{name} starts only the training", _BY_SRUN)
    elif key == "sidecars" and name != "srun":
        what = f"{name} would use MASTER_PORT at the same time as the training"
        context.problem(per, what, _BY_SRUN)
    elif step.min_bus_bandwidth and not launcher.task_per_rank:
        context.problem(
            (*path, "min_bus_bandwidth"),
            f"nccl-tests gets its ranks from MPI, and {name} starts no MPI program",
            "add launcher: srun to this step, and srun: {mpi: pmix}; or per: node with -g 8",
            warning=True,
        )


def _check_container(context: Context, key: str, path: Path, step: Step) -> None:
    container = context.container
    if container is None:
        if step.container:
            what = "this job has no container"
            context.problem((*path, "container"), what, "remove it, or add software.container")
        return
    inside = step.per == "rank" if step.container is None else step.container
    where = (*path, "per" if step.container is None else "container")
    if inside and step.when == "always":
        what = "a job can end before its container is set up"
        context.problem(where, what, "container: false")
    elif inside and container.runtime == "docker" and key == "sidecars":
        what = "docker runs only one container of the job on a node, that of the training"
        context.problem(where, what, "container: false")
    elif (
        inside
        and container.runtime == "docker"
        and step.launcher
        and not context.launcher.task_per_rank
    ):
        what = "srun would start one container per rank, but docker runs only one on a node"
        hint = f"remove it: {context.launcher.name} starts the ranks of a node in one container"
        context.problem((*path, "launcher"), what, hint)


_SMALL = re.compile(r"\d{1,6}|\d{1,3}[kK]", re.ASCII)  # below a megabyte, latency decides


def _check_sizes(context: Context, path: Path, step: Step) -> None:
    """Warn of an average over sizes that no network carries at its full bandwidth."""
    words = step.command
    first = next((b for a, b in pairwise(words) if a in ("-b", "--minbytes")), "")
    if step.min_bus_bandwidth and _SMALL.fullmatch(show(first)):
        context.problem(
            (*path, "min_bus_bandwidth"),
            f"the average over all sizes must reach it, but small sizes (from {show(first)}) lower "
            "it",
            "write -b 1G -e 8G in the command",
            warning=True,
        )


# Without them srun takes SLURM_NTASKS and SLURM_NTASKS_PER_NODE of the job, whatever its other
# options, and since Slurm 22.05 one CPU for each task. Source: srun(1), --cpus-per-task.
_SHAPE = (("--nodes", "-N"), ("--ntasks", "-n"), ("--cpus-per-task", "-c"))

_EFFECTS: Mapping[tuple[str, ...], str] = {
    ("--cpus-per-task",): "each task may get only one CPU",
    ("--overlap",): "the training would wait until this step has ended",
}


def _check_srun(context: Context, key: str, path: Path, step: Step) -> None:
    """Refuse an srun of the spec's own whose shape is that of the job by accident."""
    if file_name(step.command[0]) != "srun":
        return
    wanted = (*_SHAPE, *([("--overlap",)] if key == "sidecars" else []))
    missing = [names[0] for names in wanted if not _has(step.command, names)]
    if step.per != "job":
        context.problem(
            (*path, "command"),
            f"per: {step.per} starts the command by srun already",
            "remove srun and its options from the command",
        )
    elif missing:
        ranks = context.placement.shape.world_size
        effect = _EFFECTS.get(tuple(missing), "it would start the job's number of tasks")
        context.problem(
            (*path, "command"),
            f"srun without {', '.join(missing)}: {effect}",
            f"write the command alone, with per: rank (on all {counted(ranks, 'rank')}) or "
            "per: node (once on every node); or add the options",
        )


def _has(words: tuple[Value, ...], names: tuple[str, ...]) -> bool:
    """Whether an option is among the words: -N2, -N 2, --nodes=2, --nodes 2."""
    long, *short = names
    return any(word == long or word.startswith((f"{long}=", *short)) for word in words[1:])
