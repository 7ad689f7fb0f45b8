"""Derived directives that a spec drops: `sbatch: {partition: false}`.

It knows which ones the script can do without, and what Slurm then chooses. It must not know their
values.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.plan.placement import Placement

DROPPABLE = ("partition", "gpus-per-node", "cpus-per-task")

# Why the script needs the others, and what to do instead.
_REMOVE = "remove it here"
NEEDED = {
    "job-name": ("clusterjobs finds the job in the queue by its name", _REMOVE),
    "nodes": ("the script is planned for this number of nodes", _REMOVE),
    "ntasks-per-node": ("srun starts this number of tasks", _REMOVE),
    "time": ("it is written only if the spec has time_limit", "remove time_limit"),
    "gres": (
        "clusterjobs requests GPUs by --gpus-per-node",
        "sbatch: {gpus-per-node: false}",
    ),
}


def check_dropped(
    own: Mapping[str, str | bool],
    placement: Placement,
    facts: ClusterFacts,
    diagnostics: Diagnostics,
) -> None:
    """Refuse what the job cannot do without, and warn of what Slurm may choose differently."""
    dropped = {name for name, value in own.items() if value is False}
    if "partition" in dropped:
        _check_partition(placement, facts, diagnostics)
    if "gpus-per-node" in dropped and placement.shape.gpus_per_node:
        _check_gpus(placement, diagnostics)
    if "cpus-per-task" in dropped and not placement.exclusive:
        diagnostics.problem(
            ("sbatch", "cpus-per-task"),
            "on a shared node, each task would get one CPU",
            "remove it, or use whole nodes",
        )
    if "constraint" in dropped and placement.constraint:
        diagnostics.problem(
            ("sbatch", "constraint"),
            f"queue {placement.partition} has nodes of several types, and the job is planned for "
            f"{placement.node_type.name}",
            _REMOVE,
        )


def _check_partition(placement: Placement, facts: ClusterFacts, diagnostics: Diagnostics) -> None:
    planned, default = placement.partition, facts.default_partition
    if planned == default:
        return
    which = f", {default}" if default else ""
    diagnostics.problem(
        ("sbatch", "partition"),
        f"Slurm will choose its default partition{which}; the job is planned for {planned}",
        f"remove it, or submit with --partition={planned}",
        warning=True,
    )


def _check_gpus(placement: Placement, diagnostics: Diagnostics) -> None:
    path = ("sbatch", "gpus-per-node")
    if placement.per_node > 1:
        what = "Slurm needs it to divide the GPUs of a node among its points"
        diagnostics.problem(path, what, "remove it, or sweep.per_node")
    elif not placement.exclusive:
        diagnostics.problem(
            path,
            "Slurm will give this job no GPUs of the nodes that it shares",
            "remove it, or use whole nodes",
            warning=True,
        )
