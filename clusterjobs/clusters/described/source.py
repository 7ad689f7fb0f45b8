"""A description of a Slurm cluster as a source of cluster facts. It writes no cluster.yaml."""

import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.catalog import gpu_model_of
from clusterjobs.clusters.described import description
from clusterjobs.clusters.described.read import read_description
from clusterjobs.clusters.facts import (
    BucketLink,
    ClusterFacts,
    DefaultMemory,
    Mount,
    NodeGroup,
    NodeType,
    Partition,
    SiteVariable,
    Terms,
)
from clusterjobs.clusters.source import SlurmNodes, SlurmPartition, SlurmShape
from clusterjobs.errors import Problem
from clusterjobs.slurm.options import seconds_of

# ------------------------------------------------------------------ slurm nodes
# The nodes and partitions of Slurm that a description stands for, so that a lab can imitate them.
# A description has no names of nodes: here they are TYPE-1, TYPE-2, ...


# Of a number that the description leaves out, the nodes have enough for any job.
_ENOUGH_CPUS = 256
_ENOUGH_MIB = 2**20
_LONGEST_PREFIX = 40  # a host name has at most 63 letters


def slurm_shape(name: str, found: description.Description) -> SlurmShape:
    """The cluster `name` as its Slurm has it."""
    prefixes = _prefixes(found.node_types)
    default = found.default_partition or next(iter(found.partitions))
    return SlurmShape(
        name=name,
        partitions=tuple(
            SlurmPartition(
                name=queue,
                groups=tuple(
                    _group(prefixes[kind], count, found.of_type(kind))
                    for kind, count in one.nodes.items()
                ),
                exclusive=one.exclusive,
                default=queue == default,
                max_time=seconds_of(one.max_time) if one.max_time else None,
                max_nodes=one.max_nodes,
            )
            for queue, one in found.partitions.items()
        ),
        shared=tuple(found.shared or ()),
        memory_scheduling=bool(found.memory_scheduling),
        slurm_version=found.slurm_version,
        commands=found.slurm_commands or "",
        address_suffix=found.master_addr_suffix or "",
    )


def _group(prefix: str, count: int, one: description.NodeType) -> SlurmNodes:
    gpus = 0 if one.request_gpus == "none" else one.gpus or 0
    kind = f":{one.gpu_type}" if one.gpu_type else ""
    return SlurmNodes(
        prefix=prefix,
        count=count,
        cpus=one.cpus or _ENOUGH_CPUS,
        real_memory=one.memory_mib or _ENOUGH_MIB,
        gres=f"gpu{kind}:{gpus}" if gpus else "",
        features=one.features,
        weight=1,
        static=True,
        threads_per_core=one.threads_per_core or 1,
        scratch=one.scratch or "",
    )


def _prefixes(kinds: Iterable[str]) -> dict[str, str]:
    """The start of the nodes' names of each type: of letters that a host name may have."""
    prefixes: dict[str, str] = {}
    for kind in kinds:
        word = re.sub(r"[^A-Za-z0-9]+", "-", kind)[:_LONGEST_PREFIX].strip("-") or "node"
        own = (f"{word}-", *(f"{word}-{number}-" for number in range(2, len(prefixes) + 3)))
        prefixes[kind] = next(prefix for prefix in own if prefix not in prefixes.values())
    return prefixes


# ------------------------------------------------------------------ facts
# Makes cluster facts from a description of a Slurm cluster.


_TERMS = Terms(
    node_facts="cluster's description",
    mounts="shared",
    max_nodes="the number of nodes",
    enable_fabric="write its fabric: in the cluster's description",
    other_version="If the cluster has another Slurm, correct slurm_version in its description",
)
_HOME = ("/home",)
_MIG = re.compile(r"\dg\.(\d{1,3})gb")


def cluster_facts(found: description.Description, file: str) -> ClusterFacts:
    """The facts of a description; its name is by default that of its file."""
    types = {name: _node_type(name, found.of_type(name)) for name in found.node_types}
    return ClusterFacts(
        name=found.name or pathlib.PurePath(file).stem,
        partitions=tuple(
            _partition(name, one, types, found) for name, one in found.partitions.items()
        ),
        mounts=tuple(Mount(path, kind) for path, kind in (found.shared or {}).items()),
        mounts_complete=found.shared is not None,
        shared_folders=_HOME if found.shared is None else (),
        slurm_version=found.slurm_version,
        slurm_commands=found.slurm_commands or "",
        default_partition=found.default_partition or "",
        uses_default=True,
        write_partition=found.write_partition,
        master_addr_suffix=found.master_addr_suffix or "",
        container_program=found.container_program or "",
        accounts=found.accounts,
        qos=found.qos,
        auto_resume=bool(found.auto_resume),
        terms=_TERMS,
    )


def _partition(
    name: str,
    one: description.Partition,
    types: dict[str, NodeType],
    found: description.Description,
) -> Partition:
    return Partition(
        name,
        tuple(
            _node_group(
                _with_most_cpus(types[kind], one.max_cpus_per_node),
                count,
                one.max_nodes,
                found.of_type(kind).features,
            )
            for kind, count in one.nodes.items()
        ),
        exclusive=one.exclusive,
        max_time=seconds_of(one.max_time) if one.max_time else None,
        default_time=seconds_of(one.default_time) if one.default_time else None,
        default_memory=(*_default_memory(one),),
        default_cpus_per_gpu=one.def_cpu_per_gpu,
        accounts=one.accounts,
        qos=one.qos,
        deny_accounts=one.deny_accounts,
        deny_qos=one.deny_qos,
    )


def _default_memory(one: description.Partition) -> Iterator[DefaultMemory]:
    if one.def_mem_per_gpu:
        yield DefaultMemory("GPU", one.def_mem_per_gpu)
    if one.def_mem_per_cpu:
        yield DefaultMemory("CPU", one.def_mem_per_cpu)
    if one.def_mem_per_node:
        yield DefaultMemory("Node", one.def_mem_per_node)


def _with_most_cpus(node_type: NodeType, most: int | None) -> NodeType:
    """The type with the CPUs that a job may have of a node: MaxCPUsPerNode."""
    if most is None or (node_type.cpus is not None and node_type.cpus <= most):
        return node_type
    return node_type._replace(cpus=node_type.cpus and most, max_cpus=most)


def _node_group(
    node_type: NodeType, count: int, most: int | None, features: tuple[str, ...]
) -> NodeGroup:
    """All nodes of a job are of one type, so a partition's limit is that of each group."""
    return NodeGroup(
        node_type.name,
        node_type,
        (node_type.name,),
        count if most is None else min(count, most),
        node_type.fabric,
        features,
        limit="" if most is None or count <= most else "MaxNodes",
    )


def _node_type(name: str, one: description.NodeType) -> NodeType:
    threads = one.threads_per_core
    return NodeType(
        name,
        cpus=one.cpus,
        memory_mib=one.memory_mib,
        gpus=one.gpus,
        gpu_model=gpu_model_of(one.gpu_model or one.gpu_type or "") or one.gpu_model,
        gpu_gres_type=one.gpu_type or "",
        gpu_memory_gib=one.gpu_memory or _memory_of_part(one.gpu_type or ""),
        fabric=one.fabric or "",
        fabric_interfaces=one.fabric_interfaces,
        network_gbps=one.network_gbps,
        local_disk_gb=one.local_disk_gb,
        scratch=one.scratch,
        variables=tuple(
            SiteVariable(key, each.value, each.reason) for key, each in one.env.items()
        ),
        source=one.source,
        setup=one.setup,
        request_gpus=one.request_gpus or "",
        cpus_are_cores=None if threads is None else threads == 1,
        threads_per_core=threads,
    )


def _memory_of_part(gpu_type: str) -> float | None:
    """GiB of a part of a GPU by NVIDIA's MIG, whose type says it: `nvidia_a100_3g.20gb`."""
    found = _MIG.search(gpu_type)
    return float(found[1]) if found else None


class NoFiles(NamedTuple):
    """A cluster that runs already needs no files of a job."""

    files: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()

    def notice(self, folder: pathlib.Path) -> str:  # noqa: ARG002  # as ClusterFiles has it
        """Nothing has to be changed in the cluster."""
        return ""


class DescriptionSource:
    """A description of a Slurm cluster."""

    def __init__(self, text: str, file: str) -> None:
        """Raises InputError with all problems of the description."""
        self.description, self.document = read_description(text, file)
        self.facts = cluster_facts(self.description, file)

    def shape(self) -> SlurmShape:
        """The nodes and partitions that it stands for."""
        return slurm_shape(self.facts.name, self.description)

    def fit(self, links: Sequence[BucketLink] = ()) -> NoFiles:
        """No files: the facts name no service that links folders to buckets."""
        assert not links
        return NoFiles()
