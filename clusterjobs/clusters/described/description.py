"""The description of a Slurm cluster, key by key: what a person or an import writes.

Each value is checked alone; `read.py` checks whether they fit each other. None means that the key
is left out: the value is unknown.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from clusterjobs.slurm.options import is_slurm_time, seconds_of
from clusterjobs.spec import field_types
from clusterjobs.spec import field_types as commands
from clusterjobs.spec.field_types import integer, literal_text, plain
from clusterjobs.spec.model import SpecModel
from clusterjobs.text import show

# ------------------------------------------------------------------ value types
# The types of single values in a description of a Slurm cluster: names, times, versions, numbers.
# As in spec/field_types.py, a ValueError says what is wrong and, after a colon, what to write.


_MAX_NAME = 200
_MAX_NUMBER = 1_000_000
_NAME = re.compile(r"[^\s,=|&()\[\]{}*!:;<>$`\"'\\/-][^\s,=|&()\[\]{}*!:;<>$`\"'\\/]*")
_FEATURE = re.compile(r"[^\s,|&()\[\]{}*!;<>$`\"'\\-][^\s,|&()\[\]{}*!;<>$`\"'\\]*")
_VERSION = re.compile(r"\d{1,2}\.\d{1,2}(?:\.[\w.-]{1,80})?", re.ASCII)
_HOST_PART = re.compile(r"[A-Za-z0-9.-]{1,63}", re.ASCII)
_WORD = re.compile(r"[a-z0-9][a-z0-9._+-]{0,31}", re.ASCII)


def name(value: Any) -> str:
    """The name of a partition, node type, GRES type, account or QOS: one word for Slurm."""
    text = _fixed(value)
    if not _NAME.fullmatch(text) or len(text.encode()) > _MAX_NAME:
        raise ValueError(
            f"{show(text)[:60]!r} is not a name of Slurm: write letters, digits, '_', '-' and '.'"
        )
    return text


def feature(value: Any) -> str:
    """A feature of nodes. Slurm's --constraint gives `&`, `|`, `*` and brackets a meaning."""
    text = _fixed(value)
    if not _FEATURE.fullmatch(text) or len(text.encode()) > _MAX_NAME:
        raise ValueError(f"{show(text)[:60]!r} is not a feature: write one word for each feature")
    return text


def version(value: Any) -> str:
    """Slurm's version, as `sinfo --version` prints it."""
    text = plain(value).removeprefix("slurm ")
    if not _VERSION.fullmatch(text):
        raise ValueError(
            f"{show(text)[:60]!r} is not a version of Slurm: write what `sinfo --version` prints, "
            "23.02.7"
        )
    return text


def max_time(value: Any) -> str:
    """A partition's MaxTime."""
    text = literal_text(value)
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return "UNLIMITED"
    if not is_slurm_time(text):
        raise ValueError(
            f"{show(text)[:60]!r} is not a Slurm time: write 90 (minutes), 12:00:00, 2-00:00:00 "
            "or UNLIMITED"
        )
    if not seconds_of(text):
        raise ValueError("no job can have a time limit of zero: write UNLIMITED, or a longer time")
    return text


def folder(value: Any) -> str:
    """An absolute folder of the nodes."""
    text = field_types.literal_path(value)
    if not text.startswith("/"):
        raise ValueError(f"{show(text)[:60]!r} is not an absolute path: write it with a leading /")
    if "$" in text:
        raise ValueError("a description has no variables: write the whole path")
    return "/" + "/".join(part for part in text.split("/") if part)


def mount_kind(value: Any) -> str:
    """The kind of a file system."""
    text = plain(value)
    if not _WORD.fullmatch(text):
        raise ValueError(
            f"{show(text)[:60]!r} is not a kind of file system: write one word, as /proc/mounts "
            "has it, for example lustre, gpfs, nfs or beegfs"
        )
    return text


def host_suffix(value: Any) -> str:
    """What is added to a node's name to get its address in the fast network."""
    text = plain(value)
    if not _HOST_PART.fullmatch(text):
        raise ValueError(
            f"{show(text)[:60]!r} cannot end a host name: write letters, digits, '-' and '.'"
        )
    return text


def line(value: Any) -> str:
    """Text of one line."""
    text = _fixed(value)
    if bad := field_types.first_control_character(text):
        raise ValueError(f"the text contains {bad}: write it in one line")
    return text


def reason(value: Any) -> str:
    """Why something is set, as a comment of job.sh."""
    if value == "":
        raise ValueError("the reason is empty: write why the variable is set")
    return line(value)


def number(value: Any) -> float:
    """A number that may have decimals."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected a number: for example 400 or 25.5")
    if not 0 < value <= _MAX_NUMBER:
        raise ValueError(f"{value} is out of range: write a number from 0.1 to {_MAX_NUMBER:,}")
    return float(value)


def _fixed(value: Any) -> str:
    text = plain(value)
    if "{{" in text:
        raise ValueError("a description has no references: write the value itself")
    return text


Name = Annotated[str, BeforeValidator(name)]
Feature = Annotated[str, BeforeValidator(feature)]
Version = Annotated[str, BeforeValidator(version)]
MaxTime = Annotated[str, BeforeValidator(max_time)]
Folder = Annotated[str, BeforeValidator(folder)]
# of the keys of a mapping, which YAML gives as text
FolderKey = Annotated[str, AfterValidator(folder)]
NameKey = Annotated[str, AfterValidator(name)]
Line = Annotated[str, BeforeValidator(line)]
Reason = Annotated[str, BeforeValidator(reason)]
MountKind = Annotated[str, BeforeValidator(mount_kind)]
HostSuffix = Annotated[str, BeforeValidator(host_suffix)]
Number = Annotated[float, BeforeValidator(number)]
NumberOfNodes = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(integer)]
Mebibytes = Annotated[int, Field(ge=1, le=1_000_000_000), BeforeValidator(integer)]
Gpus = Annotated[int, Field(ge=0, le=1_000), BeforeValidator(integer)]
Count = field_types.Count
Flag = field_types.Flag


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


KIND = "slurm"

Fabric = Literal["efa", "infiniband", "slingshot", "gvnic", "tcpx", "tcpxo", "ethernet"]
GpuRequests = Literal["gpus-per-node", "gres", "gpus-per-task", "none"]
ContainerProgram = Literal["pyxis", "apptainer", "singularity", "docker", "shifter"]


def _variable(value: Any) -> Any:
    if not isinstance(value, dict):
        shown = "..." if isinstance(value, (list, type(None))) else f'"{value}"'
        raise ValueError(
            "a variable of the site needs a reason, which job.sh shows: write "
            f"{{value: {shown}, reason: why it is set}}"
        )
    return value


class SiteVariable(SpecModel):
    """An environment variable that jobs of this cluster need, and why."""

    value: Annotated[field_types.LiteralText, AfterValidator(field_types.expandable_text)]
    reason: Reason


Variables = dict[field_types.EnvironmentName, Annotated[SiteVariable, BeforeValidator(_variable)]]


class Defaults(SpecModel):
    """Keys that stand at the top, for all node types, or in one of them, which then has its own.

    `env`, `source` and `setup` of a node type are added to those at the top.
    """

    fabric: Fabric | None = None
    fabric_interfaces: Count | None = None
    network_gbps: Number | None = None
    scratch: Folder | None = None
    request_gpus: GpuRequests | None = None
    env: Variables = Field(default_factory=dict)
    source: tuple[Folder, ...] = ()
    setup: commands.Code = ()


class NodeType(Defaults):
    """Nodes that are alike. `cpus` as Slurm counts them (CPUTot), `memory_mib` its RealMemory.

    `gpus`: 0 for none, also those that are no GRES. `gpu_type`: the type in Slurm's Gres.
    `gpu_model`: the maker's name, as `H100`. `gpu_memory`: of one GPU, in GiB. `network_gbps`: of
    one node, all interfaces together. `scratch`: a folder on the node's own disk, of
    `local_disk_gb`.
    """

    cpus: Count | None = None
    threads_per_core: Count | None = None
    memory_mib: Mebibytes | None = None
    gpus: Gpus | None = None
    gpu_type: Name | None = None
    gpu_model: Line | None = None
    gpu_memory: Number | None = None
    features: Annotated[tuple[Feature, ...], Field(max_length=200)] = ()
    local_disk_gb: Count | None = None


class Partition(SpecModel):
    """A partition of Slurm. `nodes`: how many nodes of each type it has.

    Partitions that have the same type share its nodes. `max_nodes`: the most that one job may
    have. `exclusive`: jobs always get whole nodes. `default_time`: of a job without a time limit.
    `def_mem_per_...`: MiB of a job that asks for no memory; `def_cpu_per_gpu`: of one that asks for
    no CPUs. `accounts`, `qos`: those of its jobs; any, if there are none. `deny_...`: of no job.
    """

    nodes: dict[NameKey, NumberOfNodes]
    max_time: MaxTime | None = None
    max_nodes: NumberOfNodes | None = None
    exclusive: Flag = False
    default_time: MaxTime | None = None
    max_cpus_per_node: NumberOfNodes | None = None
    def_cpu_per_gpu: NumberOfNodes | None = None
    def_mem_per_cpu: Mebibytes | None = None
    def_mem_per_gpu: Mebibytes | None = None
    def_mem_per_node: Mebibytes | None = None
    accounts: tuple[Name, ...] = ()
    qos: tuple[Name, ...] = ()
    deny_accounts: tuple[Name, ...] = ()
    deny_qos: tuple[Name, ...] = ()


class Description(Defaults):
    """All of a description. `shared`: the folders that all nodes share, with their file system.

    `slurm_commands`: the folder of srun, where it is not on every user's PATH.
    `memory_scheduling`: Slurm divides the nodes' memory (CR_*_Memory). `write_partition`: false
    where the site chooses the partition. `auto_resume`: SageMaker HyperPod's --auto-resume.
    """

    kind: Literal["slurm"]
    name: Name | None = None
    slurm_version: Version | None = None
    default_partition: Name | None = None
    node_types: dict[NameKey, NodeType]
    partitions: dict[NameKey, Partition]
    shared: dict[FolderKey, MountKind] | None = None
    slurm_commands: Folder | None = None
    memory_scheduling: Flag | None = None
    write_partition: Flag = True
    container_program: ContainerProgram | None = None
    master_addr_suffix: HostSuffix | None = None
    auto_resume: Flag = False
    accounts: tuple[Name, ...] = ()
    qos: tuple[Name, ...] = ()

    def of_type(self, name: str) -> NodeType:
        """The node type with what stands at the top for all of them."""
        own = self.node_types[name]
        above = {
            key: getattr(self, key)
            for key in Defaults.model_fields
            if key not in own.model_fields_set
        }
        added = {
            "env": {**self.env, **own.env},
            "source": (*self.source, *own.source),
            "setup": (*self.setup, *own.setup),
        }
        return own.model_copy(update={**above, **added})
