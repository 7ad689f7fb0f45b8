"""The shape of a lab: its nodes, addresses and folders.

Pure functions. This module knows the shape of a cluster's Slurm; it must not know Slurm's files or
this machine.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace

from clusterjobs.clusters.source import SlurmNodes, SlurmPartition, SlurmShape
from clusterjobs.errors import did_you_mean, one_problem

HEAD_NODE = "head-node"
NETWORK = ipaddress.ip_network("10.77.0.0/16")

# Jobs find this machine's programs and users' files there, on all nodes.
_OF_THE_MACHINE = re.compile(r"/(home|root|tmp)|/(usr|bin|sbin|lib|etc|dev|proc|sys)(/.*)?")


@dataclass(frozen=True)
class LabNode:
    """One node of the lab. Its name in Slurm is its host name; `scratch` is its own disk."""

    name: str
    address: str
    scratch: str


@dataclass(frozen=True)
class LabSpec:
    """The cluster to imitate. With `controller_only` its nodes exist only in Slurm's config."""

    cluster: str
    partitions: tuple[SlurmPartition, ...]
    shared: tuple[str, ...] = ()
    memory_scheduling: bool = False
    controller_only: bool = False
    slurm_version: str | None = None  # the cluster's; the lab may run another one
    commands: str = "/opt/slurm/bin"
    size_setting: str = "nodes"
    address_suffix: str = ""

    @property
    def groups(self) -> tuple[SlurmNodes, ...]:
        """All nodes, each once: partitions may share them, and then one of them has the most."""
        largest: dict[str, SlurmNodes] = {}
        for partition in self.partitions:
            for group in partition.groups:
                known = largest.get(group.prefix, group)
                largest[group.prefix] = max(known, group, key=lambda one: one.count)
        return tuple(largest.values())

    @property
    def nodes(self) -> tuple[LabNode, ...]:
        """The nodes to start, with ascending addresses from the first of the network."""
        if self.controller_only:
            return ()
        names = ((name, group.scratch) for group in self.groups for name in group.names)
        return tuple(
            LabNode(name, str(address), _own_disk(scratch, self.shared))
            for (name, scratch), address in zip(names, NETWORK.hosts(), strict=False)
        )

    @property
    def head_address(self) -> str:
        return str(NETWORK.broadcast_address - 1)


def _own_disk(folder: str, shared: tuple[str, ...]) -> str:
    """The node's own disk: `folder` if the lab can have it, else one that hides nothing shared."""
    if folder and not _OF_THE_MACHINE.fullmatch(folder):
        return folder
    name = "/scratch"
    while any(f"{each}/".startswith(f"{name}/") for each in shared):
        name += "-local"
    return name


def lab_spec(
    cluster: SlurmShape,
    nodes_per_queue: int = 2,
    queue: str | None = None,
    controller_only: bool = False,
) -> LabSpec:
    """The lab for a cluster, or for one of its queues.

    Each queue has at most `nodes_per_queue` nodes of each type. With `controller_only` it keeps
    its full size, because no node is started.
    """
    chosen = _chosen(cluster.partitions, queue)
    if not controller_only:
        chosen = tuple(_smaller(partition, nodes_per_queue) for partition in chosen)
    return LabSpec(
        cluster=cluster.name,
        partitions=chosen,
        shared=tuple(folder for folder in cluster.shared if not _OF_THE_MACHINE.fullmatch(folder)),
        memory_scheduling=cluster.memory_scheduling,
        controller_only=controller_only,
        slurm_version=cluster.slurm_version,
        commands=cluster.commands,
        size_setting=cluster.size_setting,
        address_suffix=cluster.address_suffix,
    )


def _chosen(
    partitions: tuple[SlurmPartition, ...], queue: str | None
) -> tuple[SlurmPartition, ...]:
    if queue is None:
        return partitions
    chosen = tuple(partition for partition in partitions if partition.name == queue)
    if not chosen:
        names = [partition.name for partition in partitions]
        raise one_problem(f"no queue {queue} in this cluster", hint=did_you_mean(queue, names))
    return tuple(partition._replace(default=True) for partition in chosen)


def _smaller(partition: SlurmPartition, nodes: int) -> SlurmPartition:
    """The nodes of each type that Slurm would allocate first: groups by weight, else in order."""
    groups: list[SlurmNodes] = []
    for group in sorted(partition.groups, key=lambda group: group.weight):
        alike = [kept.count for kept in groups if _type(kept) == _type(group)]
        count = min(group.count, nodes - sum(alike))
        if count > 0:
            groups.append(replace(group, count=count))
    return partition._replace(groups=tuple(groups))


def _type(group: SlurmNodes) -> tuple[object, ...]:
    """What jobs can tell apart: the same nodes may be two groups, which always run or do not."""
    features = frozenset(group.features) - {"static", "dynamic"}
    return group.cpus, group.real_memory, group.gres, features
