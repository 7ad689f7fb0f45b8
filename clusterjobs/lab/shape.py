"""The shape of a lab: its nodes, addresses and folders.

Pure functions. This module knows the facts of a cluster; it must not know Slurm's files or this
machine.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clusterjobs.errors import did_you_mean, one_problem
from clusterjobs.parallelcluster.config import Cluster
from clusterjobs.parallelcluster.slurm_nodes import NodeGroup, Partition

HEAD_NODE = "head-node"
NETWORK = ipaddress.ip_network("10.77.0.0/16")
DEFAULT_SCRATCH = "/scratch"


@dataclass(frozen=True)
class LabNode:
    """One node of the lab. Its name in Slurm is its host name; `scratch` is its own disk."""

    name: str
    address: str
    partition: str
    scratch: str


@dataclass(frozen=True)
class LabSpec:
    """The cluster to imitate. With `controller_only` its nodes exist only in Slurm's config."""

    cluster: str
    partitions: tuple[Partition, ...]
    shared: tuple[str, ...] = ()
    scratch: tuple[tuple[str, str], ...] = ()  # (partition, folder)
    memory_scheduling: bool = False
    controller_only: bool = False
    slurm_version: str | None = None  # the cluster's; the lab may run another one

    @property
    def nodes(self) -> tuple[LabNode, ...]:
        """The nodes to start, with ascending addresses from the first of the network."""
        if self.controller_only:
            return ()
        scratch = dict(self.scratch)
        hosts = NETWORK.hosts()
        return tuple(
            LabNode(name, str(address), partition, scratch.get(partition, DEFAULT_SCRATCH))
            for (partition, name), address in zip(self._names(), hosts, strict=False)
        )

    @property
    def head_address(self) -> str:
        return str(NETWORK.broadcast_address - 1)

    def _names(self) -> Iterator[tuple[str, str]]:
        for partition in self.partitions:
            for group in partition.groups:
                yield from ((partition.name, name) for name in group.names)


def lab_spec(
    cluster: Cluster,
    partitions: tuple[Partition, ...],
    nodes_per_queue: int = 2,
    queue: str | None = None,
    controller_only: bool = False,
) -> LabSpec:
    """The lab for a cluster: at most `nodes_per_queue` nodes of each queue, or only of `queue`.

    With `controller_only` the queues keep their full size, because no node is started.
    """
    chosen = _chosen(partitions, queue)
    if not controller_only:
        chosen = tuple(_smaller(partition, nodes_per_queue) for partition in chosen)
    return LabSpec(
        cluster=cluster.name,
        partitions=chosen,
        shared=tuple(dict.fromkeys(mount.directory for mount in cluster.mounts)),
        scratch=tuple((q.name, q.scratch_dir) for q in cluster.queues if q.scratch_dir),
        memory_scheduling=cluster.memory_scheduling,
        controller_only=controller_only,
        slurm_version=cluster.slurm_version,
    )


def _chosen(partitions: tuple[Partition, ...], queue: str | None) -> tuple[Partition, ...]:
    if queue is None:
        return partitions
    chosen = tuple(partition for partition in partitions if partition.name == queue)
    if not chosen:
        names = [partition.name for partition in partitions]
        raise one_problem(f"no queue {queue} in this cluster", hint=did_you_mean(queue, names))
    return tuple(replace(partition, default=True) for partition in chosen)


def _smaller(partition: Partition, nodes: int) -> Partition:
    """The nodes that Slurm would allocate first: groups by weight, in their order otherwise."""
    groups: list[NodeGroup] = []
    for group in sorted(partition.groups, key=lambda group: group.weight):
        count = min(group.count, nodes - sum(kept.count for kept in groups))
        if count > 0:
            groups.append(replace(group, count=count))
    return replace(partition, groups=tuple(groups))
