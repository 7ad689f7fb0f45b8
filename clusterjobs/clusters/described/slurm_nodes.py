"""The nodes and partitions of Slurm that a description stands for, so that a lab can imitate them.

A description has no names of nodes: here they are TYPE-1, TYPE-2, ... It must not know experiments,
nor how a lab is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.clusters.described import description
from clusterjobs.clusters.source import NodeGroup, Partition, SlurmShape
from clusterjobs.slurm.time import seconds_of

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
            Partition(
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


def _group(prefix: str, count: int, one: description.NodeType) -> NodeGroup:
    gpus = 0 if one.request_gpus == "none" else one.gpus or 0
    kind = f":{one.gpu_type}" if one.gpu_type else ""
    return NodeGroup(
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
