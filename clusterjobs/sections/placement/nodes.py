"""The partition and the groups of nodes that a spec selects, and the Slurm constraint for them."""

from collections.abc import Iterable

from clusterjobs.clusters.facts import ClusterFacts, NodeGroup, Partition
from clusterjobs.errors import did_you_mean
from clusterjobs.sections.context import Context
from clusterjobs.sections.placement.gpu_requests import gpus_wanted, hint_of, with_usable_cpus


def find_partition(context: Context) -> Partition:
    """The named partition, else the only one with GPUs, else the only one.

    A job that wants 0 GPUs gets the only one without them, if there is one.
    Raises InputError if there is none.
    """
    found = _find_partition(context)
    if found is None:
        context.diagnostics.stop()
    return with_usable_cpus(found, hint_of(context.spec))


def _find_partition(context: Context) -> Partition | None:
    facts, wanted, gpus = context.facts, context.spec.queue, gpus_wanted(context.spec)
    if wanted is not None:
        found = facts.find_partition(wanted)
        if found is None:
            hint = did_you_mean(wanted, [one.name for one in facts.partitions])
            context.problem(("queue",), f"{facts.name} has no queue {wanted}", hint)
        return found
    kind, candidates = _candidates(facts, gpus)
    if len(candidates) == 1 and not candidates[0].name:
        placeholder = candidates[0].placeholder or "no name"
        context.diagnostics.missing(
            "queue",
            f"the queue's name in the config of {facts.name} ({placeholder}) was not filled in",
            "add `queue:` with the name that it has in the cluster",
        )
        return None
    if len(candidates) > 1 and (default := _default(facts, candidates)):
        what = f"the default partition of {facts.name}"
        context.record("queue", default.name, what)
        return default
    if len(candidates) == 1:
        what = f"the only {kind} of {facts.name}"
        context.record("queue", candidates[0].name, what)
        return candidates[0]
    context.diagnostics.missing(
        "queue",
        f"{facts.name} has {len(candidates)} queues to choose from",
        "add `queue: ...`, one of " + ", ".join(one.name for one in candidates),
    )
    return None


def _candidates(facts: ClusterFacts, gpus: int | None) -> tuple[str, list[Partition]]:
    """The partitions that a spec without `queue` can mean, and what they have in common."""
    kind = "queue without GPUs" if gpus == 0 else "GPU queue"
    fitting = [
        one
        for one in facts.partitions
        if any(group.node_type.gpus for group in one.node_groups) is (gpus != 0)
    ]
    return (kind, fitting) if fitting else ("queue", list(facts.partitions))


def _default(facts: ClusterFacts, candidates: list[Partition]) -> Partition | None:
    """The one that jobs of the site get; the first queue of a ParallelCluster was not chosen so."""
    named = (one for one in candidates if one.name == facts.default_partition)
    return next(named, None) if facts.uses_default else None


def default_queue(facts: ClusterFacts, gpus: int | None) -> str | None:
    """The queue of a spec without `queue`; None if there is no single one, or it has no name."""
    _, candidates = _candidates(facts, gpus)
    only = candidates[0] if len(candidates) == 1 else _default(facts, candidates)
    return (only.name or None) if only else None


def find_groups(context: Context, partition: Partition) -> tuple[NodeGroup, ...]:
    """The groups of the partition that the job can use; their nodes are of one type.

    Raises InputError if there are none.
    """
    return _find_groups(context, partition) or context.diagnostics.stop()


def _find_groups(context: Context, partition: Partition) -> tuple[NodeGroup, ...]:
    wanted, name, groups = context.spec.instance_type, partition.name, partition.node_groups
    kinds = list(dict.fromkeys(group.node_type.name for group in groups))
    types = list(dict.fromkeys(kind for group in groups for kind in group.type_names))
    if wanted is not None and wanted not in types:
        context.problem(
            ("instance_type",), f"queue {name} has no {wanted}", did_you_mean(wanted, types)
        )
        return ()
    if wanted is not None:
        return tuple(group for group in groups if wanted in group.type_names)
    if len(kinds) > 1:
        context.diagnostics.missing(
            "instance_type",
            f"queue {name} has nodes of several types, but all nodes of a job must be of one type",
            "add `instance_type: ...`, one of " + ", ".join(types),
        )
        return ()
    if not kinds:
        context.diagnostics.missing(
            "queue",
            f"queue {name} has no nodes",
            "choose another queue, or give it nodes in the cluster's config",
        )
    elif kinds[0]:
        context.record("instance_type", kinds[0], f"what queue {name} has")
    return groups


def constraint_of(partition: Partition, chosen: tuple[NodeGroup, ...]) -> str:
    """The Slurm features that select these groups, if the partition has others."""
    others = [one for one in partition.node_groups if one not in chosen]
    if not others:
        return ""
    elsewhere = {feature for one in others for feature in one.features}
    own = [[name for name in one.features if name not in elsewhere] for one in chosen]
    common = [name for name in own[0] if all(name in names for names in own)]
    return common[0] if common else "|".join(names[0] for names in own if names)


def node_limit(groups: Iterable[NodeGroup]) -> int | None:
    """The largest number of nodes; None if it is unknown for one group."""
    limits = [group.max_nodes for group in groups]
    return None if None in limits else sum(limit or 0 for limit in limits)
