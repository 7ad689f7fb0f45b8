"""Where the job runs: partition, node type, nodes, GPUs, tasks and CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.clusters.facts import ClusterFacts, NodeGroup, NodeType, Partition, Terms
from clusterjobs.counted import counted
from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.base import Shape
from clusterjobs.launchers import Launcher
from clusterjobs.sections.placement.gpu_requests import (
    check_gpu_requests,
    gpus_wanted,
    hint_of,
    with_usable_cpus,
)
from clusterjobs.sections.placement.node_share import (
    check_packing,
    plan_cpus_per_task,
    plan_gpus_per_node,
    plan_ranks_per_node,
    points_per_node,
    refuse_gpus,
)
from clusterjobs.sections.placement.nodes import (
    constraint_of,
    find_groups,
    find_partition,
    node_limit,
)
from clusterjobs.slurm.time import seconds_of, slurm_time
from clusterjobs.spec.experiment import Experiment

# ------------------------------------------------------------------ role nodes
#
# How the nodes of a job are divided: the first ones train, the others have roles.


def nodes_of_roles(experiment: Experiment) -> int:
    """How many nodes do not train."""
    return sum(one.nodes for one in experiment.roles.values())


def first_nodes(experiment: Experiment) -> Iterator[tuple[str, int]]:
    """Each role with the number of its first node, from 0 among the job's nodes."""
    first = experiment.nodes - nodes_of_roles(experiment)
    for name, role in experiment.roles.items():
        yield name, first
        first += role.nodes


def plan_training_nodes(
    experiment: Experiment, diagnostics: Diagnostics, provenance: Provenance
) -> int:
    """The nodes that train, at least one: with too few, planning continues after the problem."""
    taken = nodes_of_roles(experiment)
    left = experiment.nodes - taken
    if left < 1:
        have = counted(experiment.nodes, "node")
        diagnostics.problem(
            ("roles",),
            f"the roles take {counted(taken, 'node')} of a job of {have}: none is left to train",
            f"nodes: {taken + 1} at least",
        )
    elif taken:
        reason = f"{counted(experiment.nodes, 'node')} without those of {_listed(experiment)}"
        provenance.record("training_nodes", left, reason)
    return max(1, left)


def _listed(experiment: Experiment) -> str:
    return ", ".join(f"{name} ({one.nodes})" for name, one in experiment.roles.items())


class Placement(NamedTuple):
    """The job's share of the cluster. `cpus_per_task` as Slurm counts them; None if unknown.

    `shape`: of the training. `fabric`: the network between the nodes, "efa" or another; "" if
    unknown. `constraint`: the Slurm features to request if the partition has several node types,
    else "". `per_node`: points of a sweep side by side on one node; all else is the share of one
    point. `role_nodes`: nodes that do not train. `address_suffix`: added to a node's name, it gives
    the node's address in the fast network.
    """

    shape: Shape
    partition: str
    node_type: NodeType
    fabric: str
    constraint: str
    exclusive: bool
    ntasks_per_node: int
    cpus_per_task: int | None
    per_node: int = 1
    role_nodes: int = 0
    address_suffix: str = ""

    @property
    def all_nodes(self) -> int:
        """The nodes of the job: those that train, then those of the roles."""
        return self.shape.nodes + self.role_nodes

    @property
    def cpus(self) -> int | None:
        """The CPUs that the job, or a point of a pack, has on one node."""
        return self.cpus_per_task and self.cpus_per_task * self.ntasks_per_node

    @property
    def cpus_per_rank(self) -> int | None:
        """A rank's share of them, at least one."""
        return self.cpus and max(1, self.cpus // self.shape.ranks_per_node)

    @property
    def shares_cpus(self) -> bool:
        """Whether a node has more ranks than CPUs."""
        return self.cpus is not None and self.cpus < self.shape.ranks_per_node


def plan_placement(
    experiment: Experiment,
    facts: ClusterFacts,
    launcher: Launcher,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Placement | None:
    """The section `placement`; None if it is impossible, with the reason in `diagnostics`."""
    partition = find_partition(
        experiment.queue, gpus_wanted(experiment), facts, diagnostics, provenance
    )
    if partition is None:
        return None
    partition = with_usable_cpus(partition, hint_of(experiment))
    groups = find_groups(experiment.instance_type, partition, diagnostics, provenance)
    if not groups:
        return None
    _check_nodes(experiment.nodes, partition.name, groups, facts.terms.max_nodes, diagnostics)
    _check_time_limit(experiment.time_limit, partition, diagnostics)
    shape = _shape(experiment, groups, facts.terms, diagnostics, provenance)
    ntasks = shape.ranks_per_node if launcher.task_per_rank else 1
    provenance.record("ntasks_per_node", ntasks, launcher.reason)
    exclusive = experiment.sbatch.get("exclusive") is not False
    _check_exclusive(exclusive, partition, facts.terms.exclusive, diagnostics)
    node_type, fabrics = groups[0].node_type, [group.fabric for group in groups if group.fabric]
    per_node = points_per_node(experiment)
    share = None if exclusive else per_node * shape.gpus_per_node or None
    placement = Placement(
        shape,
        partition.name,
        node_type,
        "efa" if "efa" in fabrics else next(iter(fabrics), ""),
        constraint_of(partition, groups),
        exclusive,
        ntasks,
        plan_cpus_per_task(
            experiment, node_type, share, ntasks * per_node, diagnostics, provenance
        ),
        per_node,
        nodes_of_roles(experiment),
        facts.master_addr_suffix,
    )
    check_packing(experiment, launcher, placement, diagnostics)
    check_gpu_requests(
        experiment, shape.gpus_per_node, node_type.gpu_gres_type, per_node, diagnostics
    )
    return placement


def _shape(
    experiment: Experiment,
    groups: tuple[NodeGroup, ...],
    terms: Terms,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Shape:
    """The numbers of nodes, ranks and GPUs."""
    nodes = plan_training_nodes(experiment, diagnostics, provenance)
    node_type, per_node = groups[0].node_type, points_per_node(experiment)
    gpus = plan_gpus_per_node(
        gpus_wanted(experiment), node_type, per_node, terms, diagnostics, provenance
    )
    if node_type.gpus is not None and gpus > node_type.gpus:
        refuse_gpus(gpus, nodes, node_type, node_limit(groups), diagnostics)
    ranks = plan_ranks_per_node(experiment.ranks_per_node, gpus, node_type, diagnostics, provenance)
    shape = Shape(nodes, ranks, gpus)
    reason = f"{counted(nodes, 'node')} x {counted(ranks, 'rank')}"
    provenance.record("world_size", shape.world_size, reason)
    return shape


def _check_nodes(
    nodes: int,
    partition: str,
    groups: tuple[NodeGroup, ...],
    word: str,
    diagnostics: Diagnostics,
) -> None:
    """Compare with the partition. `word`: the source's own term for the number of nodes."""
    limit = node_limit(groups)
    if limit is not None and nodes > limit:
        word = groups[0].limit or word
        counts = ", ".join(f"{one.name}: {one.limit or word} {one.max_nodes}" for one in groups)
        diagnostics.problem(
            ("nodes",),
            f"{nodes} is more than queue {partition} can have ({counts})",
            f"nodes: {limit} at most, or ask the cluster's admin to raise {word}",
        )


def _check_time_limit(
    time_limit: str | None, partition: Partition, diagnostics: Diagnostics
) -> None:
    """By default Slurm accepts a longer job, and it waits forever (EnforcePartLimits)."""
    longest = partition.max_time
    if time_limit is None or longest is None:
        return
    seconds = seconds_of(time_limit)
    if seconds is None or seconds > longest:
        most = slurm_time(longest)
        diagnostics.problem(
            ("time_limit",),
            f"{time_limit} is longer than queue {partition.name} allows (MaxTime {most})",
            f"time_limit: {most} at most, or ask the cluster's admin to raise MaxTime",
        )


def _check_exclusive(
    exclusive: bool, partition: Partition, word: str, diagnostics: Diagnostics
) -> None:
    if not exclusive and partition.exclusive:
        diagnostics.problem(
            ("sbatch", "exclusive"),
            f"queue {partition.name} always allocates whole nodes ({word})",
            "remove it, or choose a queue that shares its nodes",
            warning=True,
        )
