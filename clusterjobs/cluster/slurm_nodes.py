"""The partitions and nodes that ParallelCluster makes of a config in Slurm."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that are alike: one `NodeName=` line of ParallelCluster's slurm.conf.

    Static and dynamic nodes of one compute resource are two groups. `real_memory` is in MiB
    (Slurm's RealMemory), `gres` is "" where there are no GPUs, else `gpu:a100:8`.
    """

    prefix: str  # "train-dy-p4d-": the node names are prefix + 1 .. prefix + count
    count: int
    cpus: int
    real_memory: int
    gres: str
    features: tuple[str, ...]
    weight: int
    static: bool

    @property
    def hostlist(self) -> str:
        return f"{self.prefix}[1-{self.count}]" if self.count > 1 else f"{self.prefix}1"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{number}" for number in range(1, self.count + 1))


@dataclass(frozen=True)
class Partition:
    """A queue as Slurm sees it. `exclusive` is `OverSubscribe=EXCLUSIVE`."""

    name: str
    groups: tuple[NodeGroup, ...]
    exclusive: bool
    default: bool
