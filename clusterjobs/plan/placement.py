"""Where the job runs: partition, node type, nodes, GPUs, tasks and CPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clusterjobs.cluster.facts import ClusterFacts, NodeGroup, NodeType, Partition
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import did_you_mean
from clusterjobs.frameworks.base import Shape
from clusterjobs.launchers import Launcher
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment


class Placement(NamedTuple):
    """The job's share of the cluster. `cpus_per_task` are Slurm's CPUs; None is unknown.

    `fabric` is the network between the nodes, "efa" or another, "" where nothing is known of one.
    `constraint` are the Slurm features to ask for where the partition mixes node types, else "".
    """

    shape: Shape
    partition: str
    node_type: NodeType
    fabric: str
    constraint: str
    exclusive: bool
    ntasks_per_node: int
    cpus_per_task: int | None

    @property
    def cpus(self) -> int | None:
        """The CPUs that the job has of a node."""
        return self.cpus_per_task and self.cpus_per_task * self.ntasks_per_node

    @property
    def cpus_per_rank(self) -> int | None:
        """A rank's share of them: one at least."""
        return self.cpus and max(1, self.cpus // self.shape.ranks_per_node)

    @property
    def shares_cpus(self) -> bool:
        """Whether a node has more ranks than the job has CPUs there."""
        return self.cpus is not None and self.cpus < self.shape.ranks_per_node


def plan_placement(
    experiment: Experiment,
    facts: ClusterFacts,
    launcher: Launcher,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Placement | None:
    """The placement, or None, with the reason in `diagnostics`."""
    partition = _partition(experiment.queue, facts, diagnostics, provenance)
    if partition is None:
        return None
    groups = _node_groups(experiment.instance_type, partition, diagnostics, provenance)
    if not groups:
        return None
    node_type, limit = groups[0].node_type, _node_limit(groups)
    _check_nodes(experiment.nodes, partition.name, groups, facts, diagnostics)
    wanted = experiment.gpus_per_node
    gpus = _gpus_per_node(wanted, node_type, facts, diagnostics, provenance)
    if node_type.gpus is not None and gpus > node_type.gpus:
        _refuse_gpus(gpus, experiment.nodes, node_type, limit, diagnostics)
    ranks = _ranks_per_node(experiment.ranks_per_node, gpus, diagnostics, provenance)
    shape = Shape(experiment.nodes, ranks, gpus)
    why = f"{shape.nodes} nodes x {ranks} ranks"
    provenance.record("world_size", shape.world_size, why)
    ntasks = ranks if launcher.task_per_rank else 1
    provenance.record("ntasks_per_node", ntasks, launcher.reason)
    exclusive = experiment.sbatch.get("exclusive") is not False
    _check_exclusive(exclusive, partition, facts, diagnostics)
    cpus = _cpus_per_task(experiment, node_type, gpus, ntasks, exclusive, diagnostics, provenance)
    fabrics = [group.fabric for group in groups if group.fabric]
    return Placement(
        shape,
        partition.name,
        node_type,
        "efa" if "efa" in fabrics else next(iter(fabrics), ""),
        _constraint(partition, groups),
        exclusive,
        ntasks,
        cpus,
    )


# ------------------------------------------------------------------ the partition and its nodes


def _partition(
    wanted: str | None, facts: ClusterFacts, diagnostics: Diagnostics, provenance: Provenance
) -> Partition | None:
    partitions = facts.partitions
    if wanted is not None:
        found = next((one for one in partitions if one.name == wanted), None)
        if found is None:
            hint = did_you_mean(wanted, [one.name for one in partitions])
            diagnostics.problem(("queue",), f"{facts.name} has no queue {wanted}", hint)
        return found
    with_gpus = [one for one in partitions if any(g.node_type.gpus for g in one.node_groups)]
    candidates = with_gpus or list(partitions)
    if len(candidates) == 1:
        kind = "GPU queue" if with_gpus else "queue"
        provenance.record("queue", candidates[0].name, f"the only {kind} of {facts.name}")
        return candidates[0]
    diagnostics.missing(
        "queue",
        f"{facts.name} has {len(candidates)} queues to choose from",
        "add `queue: ...`, one of " + ", ".join(one.name for one in candidates),
    )
    return None


def _node_groups(
    wanted: str | None,
    partition: Partition,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> tuple[NodeGroup, ...]:
    """Those of the partition whose nodes are alike and serve the job."""
    name, groups = partition.name, partition.node_groups
    kinds = list(dict.fromkeys(group.node_type.name for group in groups))
    types = list(dict.fromkeys(kind for group in groups for kind in group.type_names))
    if wanted is not None and wanted not in types:
        diagnostics.problem(
            ("instance_type",), f"queue {name} has no {wanted}", did_you_mean(wanted, types)
        )
        return ()
    if wanted is not None:
        return tuple(group for group in groups if wanted in group.type_names)
    if len(kinds) > 1:
        diagnostics.missing(
            "instance_type",
            f"queue {name} mixes instance types, and the nodes of a job are to be alike",
            "add `instance_type: ...`, one of " + ", ".join(types),
        )
        return ()
    if not kinds:
        diagnostics.missing(
            "queue",
            f"queue {name} has no nodes",
            "choose another queue, or give it nodes in the cluster's config",
        )
    elif kinds[0]:
        provenance.record("instance_type", kinds[0], f"what queue {name} has")
    return groups


def _constraint(partition: Partition, chosen: tuple[NodeGroup, ...]) -> str:
    """The Slurm features that keep the job on the chosen groups, where the partition has others."""
    others = [one for one in partition.node_groups if one not in chosen]
    if not others:
        return ""
    elsewhere = {feature for one in others for feature in one.features}
    own = [[name for name in one.features if name not in elsewhere] for one in chosen]
    common = [name for name in own[0] if all(name in names for names in own)]
    return common[0] if common else "|".join(names[0] for names in own if names)


def _node_limit(groups: Iterable[NodeGroup]) -> int | None:
    """How many nodes there can be; None where that is not known of one group."""
    limits = [group.max_nodes for group in groups]
    return None if None in limits else sum(limit or 0 for limit in limits)


def _check_nodes(
    nodes: int,
    partition: str,
    groups: tuple[NodeGroup, ...],
    facts: ClusterFacts,
    diagnostics: Diagnostics,
) -> None:
    limit, word = _node_limit(groups), facts.terms.max_nodes
    if limit is not None and nodes > limit:
        counts = ", ".join(f"{one.name}: {word} {one.max_nodes}" for one in groups)
        diagnostics.problem(
            ("nodes",),
            f"{nodes} is more than queue {partition} can have ({counts})",
            f"nodes: {limit} at most, or ask the cluster's admin to raise {word}",
        )


def _check_exclusive(
    exclusive: bool, partition: Partition, facts: ClusterFacts, diagnostics: Diagnostics
) -> None:
    if not exclusive and partition.exclusive:
        diagnostics.problem(
            ("sbatch", "exclusive"),
            f"queue {partition.name} gives whole nodes all the same ({facts.terms.exclusive})",
            "remove it, or choose a queue that shares its nodes",
            warning=True,
        )


# ------------------------------------------------------------------ GPUs, ranks and CPUs of a node


def _gpus_per_node(
    wanted: int | None,
    node_type: NodeType,
    facts: ClusterFacts,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> int:
    source = facts.terms.node_facts
    if wanted is not None:
        return wanted
    if node_type.gpus is not None:
        reason = f"all that a {node_type.name} has"
        return provenance.record("gpus_per_node", node_type.gpus, reason, source)
    diagnostics.missing(
        "gpus_per_node",
        f"the {source} does not know {node_type.name or 'an instance type for this queue'}, "
        "so its GPUs are unknown",
        "add `gpus_per_node: 8`",
    )
    return 0


def _refuse_gpus(
    wanted: int, nodes: int, node_type: NodeType, limit: int | None, diagnostics: Diagnostics
) -> None:
    has, total = node_type.gpus or 0, wanted * nodes
    if has == 0:
        hint = "remove it: this instance type has no GPU"
    elif total % has or (limit is not None and total // has > limit):
        hint = f"gpus_per_node: {has} at most"
    else:
        hint = f"nodes: {total // has} with gpus_per_node: {has} gives the same {total} GPUs"
    what = f"{wanted} is more than a {node_type.name} has ({has})"
    diagnostics.problem(("gpus_per_node",), what, hint)


def _ranks_per_node(
    wanted: int | None, gpus: int, diagnostics: Diagnostics, provenance: Provenance
) -> int:
    if wanted is None:
        reason = "one rank per GPU" if gpus else "no GPUs: one rank per node"
        return provenance.record("ranks_per_node", gpus or 1, reason)
    if gpus and wanted > gpus:
        diagnostics.problem(
            ("ranks_per_node",),
            f"{wanted} ranks would share {gpus} GPUs",
            "remove it: there is one rank per GPU",
        )
    return wanted


def _cpus_per_task(
    experiment: Experiment,
    node_type: NodeType,
    gpus: int,
    ntasks: int,
    exclusive: bool,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> int | None:
    wanted, cpus = experiment.cpus_per_task, node_type.cpus
    if cpus is None:
        return wanted
    if wanted is not None:
        if wanted * ntasks > cpus:
            diagnostics.problem(
                ("cpus_per_task",),
                f"{ntasks} tasks x {wanted} CPUs is more than the node's {cpus}",
                f"cpus_per_task: {cpus // ntasks} at most",
            )
        return wanted
    share, whose = cpus, f"{cpus} CPUs"
    if not exclusive and node_type.gpus:
        share = cpus * gpus // node_type.gpus
        whose = f"{gpus} of {node_type.gpus} GPUs' share of {cpus} CPUs: {share}"
    if ntasks > share:
        diagnostics.problem(
            ("ranks_per_node",) if experiment.ranks_per_node else ("nodes",),
            f"{ntasks} tasks on a node of {share} CPUs",
            f"ranks_per_node: {share} at most",
        )
    return provenance.record("cpus_per_task", max(1, share // ntasks), f"{whose} / {ntasks} tasks")
