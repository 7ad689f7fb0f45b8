"""Where the job runs: queue, instance type, nodes, GPUs, tasks and CPUs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clusterjobs.catalog.instances import InstanceType, find_instance_type
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import did_you_mean
from clusterjobs.launchers import Launcher
from clusterjobs.parallelcluster.config import Cluster, ComputeResource, Queue
from clusterjobs.parallelcluster.slurm_nodes import slurm_cpus
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment


class Placement(NamedTuple):
    """The job's share of the cluster. `cpus` are Slurm's, of one whole node; None is unknown.

    `constraint` is the Slurm feature to ask for where the queue mixes instance types, else "".
    """

    queue: str
    instance_type: str
    instance: InstanceType | None
    constraint: str
    efa: bool
    exclusive: bool
    nodes: int
    gpus_per_node: int
    ranks_per_node: int
    world_size: int
    ntasks_per_node: int
    cpus_per_task: int | None

    @property
    def cpus_per_rank(self) -> int | None:
        """Of the CPUs of a node's tasks, the share of a rank: one at least."""
        if self.cpus_per_task is None:
            return None
        return max(1, self.cpus_per_task * self.ntasks_per_node // self.ranks_per_node)

    @property
    def shares_cpus(self) -> bool:
        """Whether a node has more ranks than the job has CPUs there."""
        cpus = self.cpus_per_task
        return cpus is not None and cpus * self.ntasks_per_node < self.ranks_per_node


def resolve_placement(
    experiment: Experiment,
    cluster: Cluster,
    launcher: Launcher,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Placement | None:
    """The placement, or None, with the reason in `diagnostics`."""
    queue = _queue(experiment, cluster, diagnostics, provenance)
    if queue is None:
        return None
    resources = _compute_resources(experiment, queue, diagnostics, provenance)
    if not resources:
        return None
    instance = _smallest_instance(resources[0])
    type_name = " or ".join(resources[0].instance_types)
    nodes = _nodes(experiment, queue, resources, diagnostics)
    gpus = _gpus_per_node(
        experiment, type_name, instance, _node_limit(resources), diagnostics, provenance
    )
    ranks = _ranks_per_node(experiment, gpus, diagnostics, provenance)
    world = provenance.record("world_size", nodes * ranks, f"{nodes} nodes x {ranks} ranks")
    ntasks = provenance.record(
        "ntasks_per_node", ranks if launcher.task_per_rank else 1, launcher.reason
    )
    exclusive = _exclusive(experiment, queue, diagnostics)
    cpus = slurm_cpus([instance], resources[0].disable_smt) if instance else None
    return Placement(
        queue.name,
        type_name,
        instance,
        _constraint(queue, resources),
        any(resource.efa for resource in resources),
        exclusive,
        nodes,
        gpus,
        ranks,
        world,
        ntasks,
        _cpus_per_task(
            experiment, cpus, instance, gpus, ntasks, exclusive, diagnostics, provenance
        ),
    )


def _exclusive(experiment: Experiment, queue: Queue, diagnostics: Diagnostics) -> bool:
    """Whole nodes, unless the spec says that it shares them."""
    shares = experiment.sbatch.get("exclusive") is False
    if shares and queue.job_exclusive:
        diagnostics.problem(
            ("sbatch", "exclusive"),
            f"queue {queue.name} gives whole nodes all the same (JobExclusiveAllocation)",
            "remove it, or choose a queue that shares its nodes",
            warning=True,
        )
    return not shares


def _queue(
    experiment: Experiment, cluster: Cluster, diagnostics: Diagnostics, provenance: Provenance
) -> Queue | None:
    names = [queue.name for queue in cluster.queues]
    if experiment.queue is not None:
        for queue in cluster.queues:
            if queue.name == experiment.queue:
                return queue
        diagnostics.problem(
            ("queue",),
            f"{cluster.name} has no queue {experiment.queue}",
            did_you_mean(experiment.queue, names),
        )
        return None
    with_gpus = [queue for queue in cluster.queues if _has_gpus(queue)]
    candidates = with_gpus or list(cluster.queues)
    if len(candidates) == 1:
        kind = "GPU queue" if with_gpus else "queue"
        provenance.record("queue", candidates[0].name, f"the only {kind} of {cluster.name}")
        return candidates[0]
    diagnostics.missing(
        "queue",
        f"{cluster.name} has {len(candidates)} queues to choose from",
        "add `queue: ...`, one of " + ", ".join(queue.name for queue in candidates),
    )
    return None


def _has_gpus(queue: Queue) -> bool:
    facts = (find_instance_type(name) for name in _types(queue.compute_resources))
    return any(instance is not None and instance.gpus > 0 for instance in facts)


def _types(resources: Iterable[ComputeResource]) -> list[str]:
    """The instance types, each once, in the config's order."""
    return list(dict.fromkeys(name for one in resources for name in one.instance_types))


def _compute_resources(
    experiment: Experiment, queue: Queue, diagnostics: Diagnostics, provenance: Provenance
) -> tuple[ComputeResource, ...]:
    """Those of the queue whose nodes are alike and serve the job."""
    kinds = list(dict.fromkeys(one.instance_types for one in queue.compute_resources))
    wanted, types = experiment.instance_type, _types(queue.compute_resources)
    if wanted is not None and wanted not in types:
        diagnostics.problem(
            ("instance_type",), f"queue {queue.name} has no {wanted}", did_you_mean(wanted, types)
        )
        return ()
    if wanted is not None:
        return tuple(one for one in queue.compute_resources if wanted in one.instance_types)
    if len(kinds) > 1:
        diagnostics.missing(
            "instance_type",
            f"queue {queue.name} mixes instance types, and the nodes of a job are to be alike",
            "add `instance_type: ...`, one of " + ", ".join(types),
        )
        return ()
    if not kinds:
        diagnostics.missing(
            "queue",
            f"queue {queue.name} has no compute resources",
            "choose another queue, or add ComputeResources to the cluster's config",
        )
    elif kinds[0]:
        provenance.record("instance_type", " or ".join(kinds[0]), f"what queue {queue.name} has")
    return queue.compute_resources


def _constraint(queue: Queue, chosen: tuple[ComputeResource, ...]) -> str:
    """The Slurm features that keep the job on the chosen compute resources, if others exist."""
    if len(chosen) == len(queue.compute_resources):
        return ""
    alike = {one.instance_types for one in chosen}
    if len(alike) == 1 and len(chosen[0].instance_types) == 1:
        return chosen[0].instance_types[0]
    return "|".join(one.name for one in chosen)


def _smallest_instance(resource: ComputeResource) -> InstanceType | None:
    """The type with the fewest GPUs, for ParallelCluster tells Slurm of no more than that."""
    known = [found for name in resource.instance_types if (found := find_instance_type(name))]
    return min(known, key=lambda found: found.gpus, default=None)


def _node_limit(resources: tuple[ComputeResource, ...]) -> int | None:
    """How many nodes there can be; None where a MaxCount is a placeholder."""
    known = [one.max_count for one in resources if one.max_count is not None]
    return sum(known) if len(known) == len(resources) else None


def _nodes(
    experiment: Experiment,
    queue: Queue,
    resources: tuple[ComputeResource, ...],
    diagnostics: Diagnostics,
) -> int:
    limit = _node_limit(resources)
    if limit is not None and experiment.nodes > limit:
        counts = ", ".join(f"{one.name}: MaxCount {one.max_count}" for one in resources)
        diagnostics.problem(
            ("nodes",),
            f"{experiment.nodes} is more than queue {queue.name} can have ({counts})",
            f"nodes: {limit} at most, or ask the cluster's admin to raise MaxCount",
        )
    return experiment.nodes


def _gpus_per_node(
    experiment: Experiment,
    type_name: str,
    instance: InstanceType | None,
    node_limit: int | None,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> int:
    wanted = experiment.gpus_per_node
    if instance is None:
        if wanted is None:
            diagnostics.missing(
                "gpus_per_node",
                f"the catalogue does not know {type_name or 'an instance type for this queue'}, "
                "so its GPUs are unknown",
                "add `gpus_per_node: 8`",
            )
        return wanted or 0
    if wanted is None:
        return provenance.record(
            "gpus_per_node", instance.gpus, f"all that a {instance.name} has", "catalogue"
        )
    if wanted > instance.gpus:
        diagnostics.problem(
            ("gpus_per_node",),
            f"{wanted} is more than a {instance.name} has ({instance.gpus})",
            _gpu_hint(wanted * experiment.nodes, instance.gpus, node_limit),
        )
    return wanted


def _gpu_hint(total: int, per_node: int, node_limit: int | None) -> str:
    if per_node == 0:
        return "remove it: this instance type has no GPU"
    if total % per_node or (node_limit is not None and total // per_node > node_limit):
        return f"gpus_per_node: {per_node} at most"
    return f"nodes: {total // per_node} with gpus_per_node: {per_node} gives the same {total} GPUs"


def _ranks_per_node(
    experiment: Experiment, gpus: int, diagnostics: Diagnostics, provenance: Provenance
) -> int:
    wanted = experiment.ranks_per_node
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
    cpus: int | None,
    instance: InstanceType | None,
    gpus: int,
    ntasks: int,
    exclusive: bool,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> int | None:
    wanted = experiment.cpus_per_task
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
    if exclusive or instance is None or instance.gpus == 0:
        share, whose = cpus, f"{cpus} CPUs"
    else:
        share = cpus * gpus // instance.gpus
        whose = f"{gpus} of {instance.gpus} GPUs' share of {cpus} CPUs: {share}"
    if ntasks > share:
        diagnostics.problem(
            ("ranks_per_node",) if experiment.ranks_per_node else ("nodes",),
            f"{ntasks} tasks on a node of {share} CPUs",
            f"ranks_per_node: {share} at most",
        )
    return provenance.record("cpus_per_task", max(1, share // ntasks), f"{whose} / {ntasks} tasks")
