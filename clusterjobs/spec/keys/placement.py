"""Where a job runs, and how many nodes, GPUs and ranks it has."""

from typing import Annotated

from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Count, GpuCount
from clusterjobs.spec.model import Key

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class PlacementKeys:
    """The cluster, and the job's share of it."""

    cluster: Annotated[
        field_types.Plain,
        Key(
            "the name of a ready config or of one of the [site](admins.md), or the path of a "
            "ParallelCluster config or of a [description of a Slurm cluster](slurm-clusters.md), "
            "relative to the spec's folder",
            "p4d-a100",
            schedules=False,
            belongs_with=("size", "time", "storage", "nodes"),
            fixed_in_sweep=("a sweep runs on one cluster", "write a spec for each cluster"),
        ),
    ]
    queue: Annotated[
        field_types.Queue | None,
        Key(
            "the queue, which is Slurm's partition",
            "gpu",
            schedules=True,
            default_is="see [the queue](#the-queue)",
            belongs_with=("size", "time", "storage"),
            options=("partition",),
        ),
    ] = None
    instance_type: Annotated[
        field_types.Plain | None,
        Key(
            "the type of node, if the queue has several",
            "p4d.24xlarge",
            schedules=False,
            default_is="the queue's type",
            belongs_with=("size", "storage"),
        ),
    ] = None
    nodes: Annotated[
        Count,
        Key(
            "number of nodes",
            "4",
            schedules=False,
            belongs_with=("size", "nodes"),
            options=("nodes",),
        ),
    ] = 1
    gpus_per_node: Annotated[
        GpuCount | None,
        Key(
            "GPUs used on each node, 0 for none; `a100:4` also names their type, as in Slurm's "
            "Gres; with `sweep.per_node`, by each point",
            "8",
            schedules=False,
            default_is="all of them, divided among the points",
            belongs_with=("size",),
            options=("gpus-per-node",),
            instead_of=dict.fromkeys(
                ("gpus", "gres", "gpus-per-task", "gpus-per-socket"),
                "gpus_per_node, the GPUs of each node",
            ),
        ),
    ] = None
    ranks_per_node: Annotated[
        Count | None,
        Key(
            "training processes on each node",
            "8",
            schedules=False,
            default_is="one per GPU, or per logical core of [Trainium](frameworks/trainium.md); "
            "1 without them",
            belongs_with=("size",),
            options=("ntasks-per-node", "tasks-per-node"),
            instead_of={"ntasks": "nodes and ranks_per_node", "ntasks-per-gpu": "ranks_per_node"},
        ),
    ] = None
    cpus_per_task: Annotated[
        Count | None,
        Key(
            "CPUs of a Slurm task",
            "12",
            schedules=False,
            default_is="the node's CPUs, divided among the tasks",
            belongs_with=("size",),
            options=("cpus-per-task",),
            instead_of={"cpus-per-gpu": "cpus_per_task, the CPUs of each rank"},
            see="#cpus-and-threads",
        ),
    ] = None
