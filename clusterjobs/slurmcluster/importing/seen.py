"""What the texts of a cluster say: its nodes, partitions and settings, before they are grouped.

It must not know which text said it, nor the format of a description. None is unknown.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field
from typing import Any

from clusterjobs.slurmcluster.importing.gres import Gpus
from clusterjobs.slurmcluster.importing.records import Line


@dataclass(frozen=True)
class Node:
    """One node. `cpus`: those that jobs can have; `reserved_cpus` are the system's own.

    `gpus`: () without any; None where the text does not say. `models`: the types that gres.conf
    alone has. `temporary_mb`: TmpDisk. `partitions`: those that the node itself names.
    """

    name: str
    cpus: int | None = None
    reserved_cpus: int = 0
    threads_per_core: int | None = None
    memory_mib: int | None = None
    gpus: tuple[Gpus, ...] | None = None
    model: str = ""
    features: tuple[str, ...] | None = None
    instance_type: str = ""
    temporary_mb: int | None = None
    states: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    version: str = ""

    @property
    def is_real(self) -> bool:
        """Whether jobs can ever get it: not a FUTURE node, nor one outside the cluster."""
        return not {"FUTURE", "EXTERNAL"} & set(self.states)

    @property
    def is_down(self) -> bool:
        return bool(_DOWN & set(self.states))

    @property
    def is_cloud(self) -> bool:
        return bool({"CLOUD", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP"} & set(self.states))

    def filled_from(self, other: Node) -> Node:
        """The same node, with what only another text knows."""
        return dataclasses.replace(
            self,
            **{
                one.name: getattr(other, one.name)
                for one in dataclasses.fields(self)
                if getattr(self, one.name) in (None, "", ())
                and getattr(other, one.name) not in (None, "", ())
                and not (one.name == "gpus" and self.gpus is not None)
            },
        )


_DOWN = frozenset(("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "INVAL"))


@dataclass(frozen=True)
class Partition:
    """One partition. `nodes`: names; None where only the nodes say to which partitions they belong.

    `max_time` in Slurm's form. `total_*`: the sums that `scontrol show partition` prints, for a
    partition whose nodes no text describes. `allowed`: who may use it, such as
    `AllowGroups=staff`; "" if everyone may.
    """

    name: str
    nodes: tuple[str, ...] | None = None
    max_time: str | None = None
    max_nodes: int | None = None
    exclusive: bool = False
    is_default: bool = False
    state: str = "UP"
    root_only: bool = False
    total_nodes: int | None = None
    total_cpus: int | None = None
    total_memory_mib: int | None = None
    total_gpus: tuple[Gpus, ...] = ()
    limits_known: bool = True
    allowed: str = ""

    @functools.cached_property
    def members(self) -> frozenset[str]:
        """`nodes` as a set, for many lookups."""
        return frozenset(self.nodes or ())


@dataclass
class Seen:
    """All of it. `settings`: of slurm.conf, with keys in lower case; `mounts`: folder -> kind.

    `probed`: node -> what a probe has seen there (probe.py). `notes`: what could not be read or
    used, for the reader of the description.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    partitions: dict[str, Partition] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] | None = None
    exports: dict[str, str] = field(default_factory=dict)
    accounts: tuple[str, ...] | None = None
    qos: tuple[str, ...] | None = None
    has_pyxis: bool | None = None
    found_programs: tuple[str, ...] = ()
    slurm_commands: str = ""
    probed: dict[str, Any] = field(default_factory=dict)
    read_at: dict[str, Line] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
