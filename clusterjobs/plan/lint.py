"""What is legal by itself and not meant: warnings, and paths that would mean two folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.parallelcluster.config import Cluster
from clusterjobs.plan.placement import Placement
from clusterjobs.plan.storage import ALWAYS_SHARED, is_below
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import show
from clusterjobs.yaml.document import Path

_READ_PRECISION = ("deepspeed", "fairseq", "gpt-neox", "megatron-deepspeed")


def check_intentions(
    experiment: Experiment, placement: Placement, cluster: Cluster, diagnostics: Diagnostics
) -> None:
    """Warn of GPUs that idle, of a slow network, of folders on one node, of what is not read."""
    _check_idle_gpus(experiment, placement, diagnostics)
    _check_shared_cpus(experiment, placement, diagnostics)
    _check_network(placement, diagnostics)
    _check_shared_folders(experiment, cluster, diagnostics)
    _check_relative_checkpoints(experiment, diagnostics)
    if experiment.framework not in _READ_PRECISION and _is_untold(experiment):
        diagnostics.problem(
            ("precision",),
            f"{experiment.framework} is told nothing of it",
            'pass it on: args: {precision: "{{ precision }}"}, as your program names it',
            warning=True,
        )


def _is_untold(experiment: Experiment) -> bool:
    """Whether there is a precision, and no argument has its name."""
    precision, args = experiment.precision, experiment.args
    words = (*args, *(args.values() if isinstance(args, Mapping) else ()))
    return precision is not None and not any(precision in str(word) for word in words)


def _check_relative_checkpoints(experiment: Experiment, diagnostics: Diagnostics) -> None:
    checkpoints, workdir = experiment.checkpoints, experiment.workdir
    if checkpoints and workdir and not checkpoints.path.startswith(("/", "${", "\0")):
        diagnostics.problem(
            ("checkpoints", "path"),
            f"{show(checkpoints.path)} is one folder for the job, which counts from where sbatch "
            "is called, and another for the training, which runs in workdir",
            f"the whole path: /fsx/{show(checkpoints.path)}",
        )


def _check_shared_cpus(
    experiment: Experiment, placement: Placement, diagnostics: Diagnostics
) -> None:
    if placement.shares_cpus:
        cpus = placement.ntasks_per_node * (placement.cpus_per_task or 1)
        key = "cpus_per_task" if experiment.cpus_per_task else "ranks_per_node"
        diagnostics.problem(
            (key,),
            f"{placement.ranks_per_node} ranks share the {cpus} CPUs that the job has of a node",
            "a CPU for each rank at least, and some more for loaders of data",
            warning=True,
        )


def _check_idle_gpus(
    experiment: Experiment, placement: Placement, diagnostics: Diagnostics
) -> None:
    instance = placement.instance
    if instance is None or not instance.gpus or not placement.exclusive:
        return
    used = min(placement.ranks_per_node, placement.gpus_per_node)
    if used < instance.gpus:
        key = "ranks_per_node" if experiment.ranks_per_node else "gpus_per_node"
        diagnostics.problem(
            (key,),
            f"{instance.gpus - used} of {instance.gpus} GPUs of every node idle, and are paid for",
            f"{key}: {instance.gpus} uses them all; a rank may use several by itself",
            warning=True,
        )


def _check_network(placement: Placement, diagnostics: Diagnostics) -> None:
    instance = placement.instance
    if instance is None or not instance.gpus or not instance.efa_interfaces:
        return
    if placement.nodes > 1 and not placement.efa:
        diagnostics.problem(
            ("nodes",),
            f"queue {placement.queue} has no EFA: {placement.nodes} {instance.name} will talk "
            "over TCP",
            "Efa: {Enabled: true} in the compute resource of the cluster's config",
            warning=True,
        )


def _check_shared_folders(
    experiment: Experiment, cluster: Cluster, diagnostics: Diagnostics
) -> None:
    """A log or a checkpoint on one node's own disk is gone with the node."""
    shared = [*ALWAYS_SHARED, *(mount.directory for mount in cluster.mounts)]
    if not cluster.mounts_complete:
        return
    for path, folder in _folders(experiment):
        if folder.startswith("/") and not any(is_below(folder, one) for one in shared):
            known = ", ".join(mount.directory for mount in cluster.mounts) or "none but /home"
            diagnostics.problem(
                path,
                f"{folder} is not on shared storage of {cluster.name}",
                f"its shared folders: {known}",
                warning=True,
            )


def _folders(experiment: Experiment) -> Iterator[tuple[Path, str]]:
    if experiment.workdir:
        yield ("workdir",), experiment.workdir
    yield ("logs", "path"), experiment.logs.path
    if experiment.checkpoints:
        yield ("checkpoints", "path"), experiment.checkpoints.path
