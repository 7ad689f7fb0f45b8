"""Where the job runs: partition, node type, nodes, GPUs, tasks and CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusterjobs.clusters.facts import NodeGroup, Partition
from clusterjobs.errors import counted
from clusterjobs.frameworks.base import Shape
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context
from clusterjobs.sections.placement.gpu_requests import requests_gpus
from clusterjobs.sections.placement.node_share import (
    plan_cpus_per_task,
    plan_gpus_per_node,
    plan_ranks_per_node,
    points_per_node,
    port_stride,
    refuse_gpus,
)
from clusterjobs.sections.placement.nodes import (
    constraint_of,
    find_groups,
    find_partition,
    node_limit,
)
from clusterjobs.sections.plan import Placement
from clusterjobs.sections.rendering import Rendering
from clusterjobs.slurm.options import seconds_of, slurm_time
from clusterjobs.spec.experiment import Experiment

# ------------------------------------------------------------------ role nodes
# How the nodes of a job are divided: the first ones train, the others have roles.


def nodes_of_roles(spec: Experiment) -> int:
    """How many nodes do not train."""
    return sum(one.nodes for one in spec.roles.values())


def first_nodes(spec: Experiment) -> Iterator[tuple[str, int]]:
    """Each role with the number of its first node, from 0 among the job's nodes."""
    first = spec.nodes - nodes_of_roles(spec)
    for name, role in spec.roles.items():
        yield name, first
        first += role.nodes


def plan_training_nodes(context: Context) -> int:
    """The nodes that train, at least one: with too few, planning continues after the problem."""
    spec = context.spec
    taken = nodes_of_roles(spec)
    left = spec.nodes - taken
    if left < 1:
        have = counted(spec.nodes, "node")
        context.problem(
            ("roles",),
            f"the roles take {counted(taken, 'node')} of a job of {have}: none is left to train",
            f"nodes: {taken + 1} at least",
        )
    elif taken:
        roles = ", ".join(f"{name} ({one.nodes})" for name, one in spec.roles.items())
        reason = f"{counted(spec.nodes, 'node')} without those of {roles}"
        context.record("training_nodes", left, reason)
    return max(1, left)


def plan(context: Context) -> Placement:
    """The section `placement`. Raises InputError if there are no nodes for the job."""
    spec, launcher = context.spec, context.launcher
    partition = find_partition(context)
    groups = find_groups(context, partition)
    _check_nodes(context, partition.name, groups)
    _check_time_limit(context, partition)
    shape = _shape(context, groups)
    ntasks = shape.ranks_per_node if launcher.task_per_rank else 1
    context.record("ntasks_per_node", ntasks, launcher.reason)
    exclusive = spec.sbatch.get("exclusive") is not False
    _check_exclusive(context, exclusive, partition)
    node_type, fabrics = groups[0].node_type, [group.fabric for group in groups if group.fabric]
    per_node = points_per_node(spec)
    share = None if exclusive else per_node * shape.gpus_per_node or None
    return Placement(
        shape,
        partition.name,
        node_type,
        "efa" if "efa" in fabrics else next(iter(fabrics), ""),
        constraint_of(partition, groups),
        exclusive,
        ntasks,
        plan_cpus_per_task(context, node_type, share, ntasks * per_node),
        per_node,
        nodes_of_roles(spec),
        context.facts.master_addr_suffix,
    )


def _shape(context: Context, groups: tuple[NodeGroup, ...]) -> Shape:
    """The numbers of nodes, ranks and GPUs."""
    nodes, node_type = plan_training_nodes(context), groups[0].node_type
    gpus = plan_gpus_per_node(context, node_type)
    if node_type.gpus is not None and gpus > node_type.gpus:
        refuse_gpus(context, gpus, nodes, node_type, node_limit(groups))
    ranks = plan_ranks_per_node(context, gpus, node_type)
    shape = Shape(nodes, ranks, gpus)
    reason = f"{counted(nodes, 'node')} x {counted(ranks, 'rank')}"
    context.record("world_size", shape.world_size, reason)
    return shape


def _check_nodes(context: Context, partition: str, groups: tuple[NodeGroup, ...]) -> None:
    nodes, limit = context.spec.nodes, node_limit(groups)
    if limit is not None and nodes > limit:
        word = groups[0].limit or context.facts.terms.max_nodes
        counts = ", ".join(f"{one.name}: {one.limit or word} {one.max_nodes}" for one in groups)
        context.problem(
            ("nodes",),
            f"{nodes} is more than queue {partition} can have ({counts})",
            f"nodes: {limit} at most, or ask the cluster's admin to raise {word}",
        )


def _check_time_limit(context: Context, partition: Partition) -> None:
    """By default Slurm accepts a longer job, and it waits forever (EnforcePartLimits)."""
    time_limit, longest = context.spec.time_limit, partition.max_time
    if time_limit is None or longest is None:
        return
    seconds = seconds_of(time_limit)
    if seconds is None or seconds > longest:
        most = slurm_time(longest)
        context.problem(
            ("time_limit",),
            f"{time_limit} is longer than queue {partition.name} allows (MaxTime {most})",
            f"time_limit: {most} at most, or ask the cluster's admin to raise MaxTime",
        )


def _check_exclusive(context: Context, exclusive: bool, partition: Partition) -> None:
    if not exclusive and partition.exclusive:
        word = context.facts.terms.exclusive
        context.problem(
            ("sbatch", "exclusive"),
            f"queue {partition.name} always allocates whole nodes ({word})",
            "remove it, or choose a queue that shares its nodes",
            warning=True,
        )


# ------------------------------------------------------------------ text
# Numbers of nodes and ranks.


def render(rendering: Rendering) -> dict[str, Any]:
    """What the block `placement` and the launchers' templates print."""
    plan = rendering.plan
    shape, per_node = plan.placement.shape, plan.placement.per_node
    has_tasks = rendering.table is not None and rendering.table.is_array
    return {
        "is_one_job": not has_tasks and all(one.name != "array" for one in plan.job.directives),
        "nodes": shape.nodes,
        "all_nodes": plan.placement.all_nodes,
        "nodes_in_words": ShellText(counted(plan.placement.all_nodes, "node")),
        "gpus_per_node": shape.gpus_per_node,
        "has_gpus_unrequested": shape.gpus_per_node > 0 and not requests_gpus(plan.job.directives),
        "ranks_per_node": shape.ranks_per_node,
        "world_size": shape.world_size,
        "is_packed": per_node > 1,
        "last_slot": per_node - 1,
        "has_address_suffix": bool(plan.placement.address_suffix),
        "address_suffix": shell.quote(plan.placement.address_suffix),
        "port_stride": port_stride(per_node),
    }
