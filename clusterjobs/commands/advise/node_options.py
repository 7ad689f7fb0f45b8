"""Where a job could run: node types of clusters, or GPUs that are given without a cluster.

It joins clusters, prices and the catalogue; it must not know layouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from clusterjobs.cluster.facts import ClusterFacts, NodeGroup, NodeType, Partition
from clusterjobs.commands.advise.choices import Setting
from clusterjobs.commands.foresight.job import ForeseenJob, Nodes, gpu_of
from clusterjobs.commands.foresight.prices import price_of
from clusterjobs.foresight.cost import HourlyPrice
from clusterjobs.foresight.layouts import RuledOut
from clusterjobs.foresight.records import Gpu, Network

MOST_NODES = 1024  # that are tried where no limit is known


class NodeOption(NamedTuple):
    """A node type that the job could use. `price`: a text says why there is none.

    `settings`: what to set in the spec to run there.
    """

    name: str
    gpu: Gpu
    gpus_per_node: int
    network: Network
    price: HourlyPrice | str
    max_nodes: int | None
    settings: tuple[Setting, ...] = ()


def own_nodes(
    job: ForeseenJob, sites: Sequence[tuple[str, str]], facts: ClusterFacts
) -> NodeOption:
    """Where the spec runs the job."""
    name, price = job.nodes.node_type, price_of(job.nodes, sites)
    groups = [one for partition in facts.partitions for one in partition.node_groups]
    limits = [one.max_nodes for one in groups if one.node_type.name == name]
    most = max(filter(None, limits), default=None)
    return NodeOption(name, job.gpu, job.layout.gpus_per_node, job.network, price, most)


def node_options_of(
    facts: ClusterFacts, cluster: str, sites: Sequence[tuple[str, str]]
) -> Iterator[NodeOption]:
    """Each node type with GPUs of each partition, once."""
    seen: set[str] = set()
    for partition in facts.partitions:
        for group in partition.node_groups:
            kind = group.node_type
            gpu = gpu_of(kind)
            if gpu is None or not kind.gpus or kind.name in seen:
                continue
            seen.add(kind.name)
            yield _node_option(facts, cluster, partition, group, gpu, kind.gpus, sites)


def _node_option(
    facts: ClusterFacts,
    cluster: str,
    partition: Partition,
    group: NodeGroup,
    gpu: Gpu,
    gpus: int,
    sites: Sequence[tuple[str, str]],
) -> NodeOption:
    kind = group.node_type
    nodes = Nodes(1, kind.name, facts.region, facts.name, group.purchase)
    settings = [Setting(("cluster",), cluster)]
    if len(facts.partitions) > 1 and partition.name:
        settings.append(Setting(("queue",), partition.name))
    if len(partition.node_groups) > 1 and group.type_names:
        settings.append(Setting(("instance_type",), group.type_names[0]))
    return NodeOption(
        f"{cluster}: {kind.name}",
        gpu,
        gpus,
        Network(kind.network_gbps or 0.0, group.fabric),
        price_of(nodes, sites),
        group.max_nodes,
        tuple(settings),
    )


def facts_of_gpus(gpu: Gpu, per_node: int, gbps: float, name: str) -> ClusterFacts:
    """A cluster that has such nodes and nothing else is known of."""
    kind = NodeType(
        name,
        gpus=per_node,
        gpu_model=gpu.name.partition("-")[0],
        gpu_memory_gib=gpu.memory_gib,
        network_gbps=gbps,
        gpudirect_rdma=True,
    )
    partition = Partition(
        name, (NodeGroup(name, kind, (name,), None, "infiniband"),), exclusive=True
    )
    return ClusterFacts(name, (partition,), mounts_complete=False, default_partition=name)


def node_counts(node_option: NodeOption, gpus: int, wanted: Iterable[int]) -> list[int]:
    """Nodes to try: those of --nodes, else as many as give the spec's GPUs, and a quarter
    to four times of that."""
    same = max(1, round(gpus / node_option.gpus_per_node))
    counts = {same, *(max(1, round(same * factor)) for factor in (0.25, 0.5, 2, 4))}
    return sorted(set(wanted) or counts)


def within_limit(node_option: NodeOption, counts: Iterable[int]) -> Iterator[int | RuledOut]:
    """The numbers that its cluster has."""
    limit = node_option.max_nodes or MOST_NODES
    for one in counts:
        if one <= limit:
            yield one
        else:
            yield RuledOut(f"{one} nodes", f"{node_option.name} has at most {limit}")
