"""Reads nodes and partitions from the records of `scontrol show` (Slurm 20.02 to 25.11)."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusterjobs.errors import Problem
from clusterjobs.importing.records import Gpus, HostlistError, Line, Record, expand, gpus_of

# ------------------------------------------------------------------ what the texts of a cluster say
# None is unknown.


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
        """The node with what only another text knows."""
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


# Who may use a partition: in the description, this key.
ALLOWED = {
    "AllowAccounts": "accounts",
    "AllowQos": "qos",
    "DenyAccounts": "deny_accounts",
    "DenyQos": "deny_qos",
}
_DOWN = frozenset(("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "INVAL"))


@dataclass(frozen=True)
class Partition:
    """One partition. `nodes`: names; None where only the nodes say to which partitions they belong.

    `max_time` in Slurm's form. `total_*`: the sums that `scontrol show partition` prints, for a
    partition whose nodes no text describes. `allowed`: who may use it, such as AllowGroups ->
    (staff,); empty if everyone may.
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
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_time: str = ""
    max_cpus_per_node: int | None = None
    job_defaults: tuple[tuple[str, int], ...] = ()

    @functools.cached_property
    def members(self) -> frozenset[str]:
        """`nodes` as a set, for many lookups."""
        return frozenset(self.nodes or ())


@dataclass
class Seen:
    """All of it. `settings`: of slurm.conf, with keys in lower case; `mounts`: folder -> kind.

    `probed`: node -> what a probe has seen there (probe.py). `notes`: what could not be read or
    used, for the reader of the description. `warnings`: values that Slurm refuses.
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
    warnings: Sequence[Problem] = ()


_CUT_OFF = "is the text cut off? save all of it: scontrol --oneliner show node > nodes.txt"
GRES_FORM = "Slurm writes gpu:TYPE:NUMBER, as in gpu:a100:8"
HOSTLIST_FORM = "Slurm writes n[01-10,12] or n1,n2"
_UNSET_MEMORY = 1  # RealMemory's default: the node's memory was not configured


def node_of(record: Record) -> Node:
    """A node of `scontrol show node`. Raises InputError for one that is cut off."""
    name = record.get("NodeName") or ""
    for key in ("CPUTot", "RealMemory", "State"):
        if record.get(key) is None:
            raise record.problem(f"the node {name[:60]} has no {key}", _CUT_OFF)
    total, usable = record.number("CPUTot") or 0, record.number("CPUEfctv")
    cpus = total if usable is None else usable
    return Node(
        name=name,
        cpus=cpus or None,
        reserved_cpus=total - cpus,
        threads_per_core=record.number("ThreadsPerCore") or None,
        memory_mib=memory_of(record),
        gpus=gpus_in(record),
        # ActiveFeatures may lack those of a node that is powered down
        features=split_list(record.get("AvailableFeatures", "Features", "ActiveFeatures")),
        instance_type=record.get("InstanceType") or "",
        temporary_mb=record.number("TmpDisk") or None,
        states=states_of(record.get("State") or ""),
        partitions=split_list(record.get("Partitions")),
        version=record.get("Version") or "",
    )


def memory_of(record: Record) -> int | None:
    """The memory that jobs can have, in MiB; None where it was not configured."""
    memory = record.number("RealMemory")
    if memory is None or memory <= _UNSET_MEMORY:
        return None
    left = memory - (record.number("MemSpecLimit") or 0)
    return left if left > 0 else memory


def gpus_in(record: Record) -> tuple[Gpus, ...]:
    """The GPUs of the key Gres. Raises InputError for one that has another form."""
    try:
        return gpus_of(record.get("Gres") or "")
    except ValueError as error:
        raise record.problem(str(error), GRES_FORM, record.get("Gres") or "") from None


def states_of(text: str) -> tuple[str, ...]:
    """`IDLE+CLOUD+POWERED_DOWN`, `idle~`, `down*`: without the marks of sinfo."""
    marks = {"~": "POWERED_DOWN", "#": "POWERING_UP", "%": "POWERING_DOWN", "!": "POWERED_DOWN"}
    state = text.strip().upper()
    more = [marks[state[-1]]] if state[-1:] in marks else []
    return (*re.findall(r"[A-Z_]+", state), *more)


def split_list(text: str | None) -> tuple[str, ...]:
    """The items between commas or blanks."""
    return tuple(part for part in re.split(r"[,\s]+", text or "") if part)


# ------------------------------------------------------------------ partitions


def partition_of(record: Record) -> Partition:
    """A partition of `scontrol show partition`."""
    name = record.get("PartitionName") or ""
    for key in ("State", "MaxTime"):
        if record.get(key) is None:
            what = f"the partition {name[:60]} has no {key}"
            raise record.problem(what, _CUT_OFF.replace("node", "partition"))
    totals = dict(part.partition("=")[::2] for part in split_list(record.get("TRES")))
    return Partition(
        name=name,
        nodes=nodes_in(record),
        is_default=_is_yes(record.get("Default")),
        state=(record.get("State") or "UP").upper(),
        root_only=_is_yes(record.get("RootOnly")),
        total_nodes=record.number("TotalNodes") or None,
        total_cpus=record.number("TotalCPUs") or None,
        total_memory_mib=_mebibytes(totals.get("mem", "")),
        total_gpus=_total_gpus(totals),
        max_time=record.get("MaxTime"),
        max_nodes=max_nodes_of(record),
        exclusive=is_exclusive(record),
        allowed=allowed_in(record),
        **defaults_in(record),
    )


def defaults_in(record: Record) -> dict[str, Any]:
    """Of a partition: what jobs get that do not ask for it, and the most CPUs."""
    most = record.get("MaxCPUsPerNode") or ""
    return {
        "default_time": record.get("DefaultTime") or "",
        "max_cpus_per_node": int(most) if most.isdecimal() and int(most) else None,
        "job_defaults": (*job_defaults(record.values).items(),),
    }


def job_defaults(settings: Mapping[str, str]) -> dict[str, int]:
    """The CPUs and MiB of jobs that ask for none: scontrol lists those of GPUs as JobDefaults."""
    listed = settings.get("jobdefaults", "").lower().split(",")
    found = {**settings, **dict(one.partition("=")[::2] for one in listed)}
    names = ("DefCpuPerGPU", "DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode")
    values = {name: found.get(name.lower(), "").strip() for name in names}
    return {name: int(one) for name, one in values.items() if re.fullmatch("[1-9][0-9]{0,8}", one)}


def allowed_in(record: Record) -> dict[str, tuple[str, ...]]:
    """Who may use a partition, by Slurm's keys; empty if every user may."""
    values = {key: split_list(record.get(key)) for key in ("AllowGroups", *ALLOWED)}
    return {key: names for key, names in values.items() if names and names[0].upper() != "ALL"}


def max_nodes_of(record: Record) -> int | None:
    """The most nodes of a job; None if there is no limit."""
    endless = (record.get("MaxNodes") or "UNLIMITED").upper() in ("UNLIMITED", "INFINITE")
    return None if endless else record.number("MaxNodes") or None


def is_exclusive(record: Record) -> bool:
    """Whether jobs always get whole nodes.

    Shared is the older name, and old versions add a number. Slurm 26.05 has Exclusive=NODE.
    """
    shared = (record.get("OverSubscribe", "Shared") or "").upper()
    return shared.startswith("EXCLUSIVE") or (record.get("Exclusive") or "").upper() == "NODE"


_MOST_IN_PARTITIONS = 2_000_000  # a node counts once in each of its partitions


def add_nodes(total: int, partition: Partition, record: Record) -> int:
    """The number of nodes with those of one more partition. Raises InputError if too large."""
    total += len(partition.nodes or ())
    if total > _MOST_IN_PARTITIONS:
        what = f"the partitions have more than {_MOST_IN_PARTITIONS:,} nodes together"
        raise record.problem(what, "is this the right file?")
    return total


def nodes_in(record: Record) -> tuple[str, ...]:
    """The nodes of the key Nodes. Raises InputError for a list that cannot be read."""
    try:
        return tuple(expand(record.get("Nodes") or ""))
    except HostlistError as error:
        what = f"Nodes= of {record.get('PartitionName')}: {error}"
        raise record.problem(what, HOSTLIST_FORM, record.get("Nodes") or "") from None


def _is_yes(text: str | None) -> bool:
    return (text or "").upper() == "YES"


_SIZE = re.compile(r"(\d{1,12})(?:\.(\d{1,3}))?([KMGTP]?)", re.ASCII)


def _mebibytes(text: str) -> int | None:
    """`23808G` and `256000M` of a TRES, in MiB."""
    found = _SIZE.fullmatch(text)
    if not found:
        return None
    value = float(f"{found[1]}.{found[2] or 0}")
    factor = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}
    return int(value * factor[found[3]]) or None


def _total_gpus(totals: dict[str, str]) -> tuple[Gpus, ...]:
    """The GPUs by type; `gres/gpu=8` without a type is the sum of all `gres/gpu:a100=8`."""
    typed = [
        Gpus(key.removeprefix("gres/gpu:"), int(value))
        for key, value in totals.items()
        if key.startswith("gres/gpu:") and value.isdecimal() and len(value) < 10
    ]
    count = totals.get("gres/gpu", "")
    if typed or not count.isdecimal() or len(count) > 9:
        return tuple(sorted(typed, key=lambda one: (one.is_part, -one.number)))
    return (Gpus("", int(count)),)
