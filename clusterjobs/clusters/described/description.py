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
from clusterjobs.spec.model import Key, SpecModel
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
Mebibytes = Annotated[
    int,
    Field(ge=1, le=1_000_000_000),
    BeforeValidator(integer),
    BeforeValidator(field_types.size_in("MiB")),
]
Gibibytes = Annotated[float, BeforeValidator(number), BeforeValidator(field_types.size_in("GiB"))]
Gigabytes = Annotated[field_types.Count, BeforeValidator(field_types.size_in("GB"))]
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

    value: Annotated[
        field_types.LiteralText,
        AfterValidator(field_types.expandable_text),
        Key("its value; the node expands `${NAME}` in it", "mlx5_0"),
    ]
    reason: Annotated[
        Reason,
        Key("why it is set: a comment in job.sh", "the other ports are of the storage network"),
    ]


Variables = dict[field_types.EnvironmentName, Annotated[SiteVariable, BeforeValidator(_variable)]]


class Defaults(SpecModel):
    """Keys that stand at the top, for all node types, or in one of them, which then has its own.

    `env`, `source` and `setup` of a node type are added to those at the top.
    """

    fabric: Annotated[
        Fabric | None,
        Key(
            "the network between nodes: `efa`, `infiniband`, `slingshot`, `gvnic`, "
            "`tcpx`, `tcpxo` or `ethernet` ([fabrics.md](fabrics.md))",
            "infiniband",
        ),
    ] = None
    fabric_interfaces: Annotated[Count | None, Key("its interfaces in one node", "4")] = None
    network_gbps: Annotated[
        Number | None, Key("of one node, all interfaces together", "400", unit="Gbit/s")
    ] = None
    scratch: Annotated[
        Folder | None, Key("a folder on the node's own disk", "/local", default_is="`/tmp`")
    ] = None
    request_gpus: Annotated[
        GpuRequests | None,
        Key(
            "the directive for GPUs: `gpus-per-node`, `gres`, `gpus-per-task`, or `none` "
            "if Slurm does not count them",
            "gres",
            default_is="`gpus-per-node`",
        ),
    ] = None
    env: Annotated[
        Variables,
        Key(
            "variables that jobs need here, each with the reason, which is a comment in job.sh",
            "{NCCL_IB_HCA: {value: mlx5_0, reason: the other ports are of the storage network}}",
        ),
    ] = Field(default_factory=dict)
    source: Annotated[
        tuple[Folder, ...],
        Key(
            "files of bash that are read early, before the job changes to `workdir`",
            "[/etc/profile.d/modules.sh]",
        ),
    ] = ()
    setup: Annotated[
        commands.Code,
        Key(
            "lines of bash that run before the spec's modules and its own `setup`",
            "[module use /opt/modulefiles]",
        ),
    ] = ()


class NodeType(Defaults):
    """Nodes that are alike. `cpus` as Slurm counts them (CPUTot), `memory_mib` its RealMemory.

    `gpus`: 0 for none, also those that are no GRES. `gpu_type`: the type in Slurm's Gres.
    `gpu_model`: the maker's name, as `H100`. `gpu_memory`: of one GPU, in GiB. `network_gbps`: of
    one node, all interfaces together. `scratch`: a folder on the node's own disk, of
    `local_disk_gb`.
    """

    cpus: Annotated[Count | None, Key("CPUTot of `scontrol show node`", "96")] = None
    threads_per_core: Annotated[
        Count | None,
        Key(
            "ThreadsPerCore. With `hint: nomultithread`, a job divides the cores and not "
            "the threads among its ranks",
            "2",
        ),
    ] = None
    memory_mib: Annotated[Mebibytes | None, Key("RealMemory", "515000", unit="MiB")] = None
    gpus: Annotated[
        Gpus | None, Key("GPUs of a node, whether Slurm counts them or not; 0 if it has none", "4")
    ] = None
    gpu_type: Annotated[
        Name | None, Key("the type in Slurm's Gres: `a100` of `gpu:a100:4`", "a100")
    ] = None
    gpu_model: Annotated[
        Line | None,
        Key(
            "the maker's name. Containers get the devices of AMD's GPUs (`MI250X`), which"
            " the [preflight](preflight.md) does not check",
            "A100",
            default_is="that of `gpu_type`, if it is a known one",
        ),
    ] = None
    gpu_memory: Annotated[Gibibytes | None, Key("of one GPU", "80", unit="GiB")] = None
    features: Annotated[
        tuple[Feature, ...],
        Field(max_length=200),
        Key(
            "Slurm's features of the nodes. Where a partition has several types, they "
            "select the type (`--constraint`)",
            "[a100, ib]",
        ),
    ] = ()
    local_disk_gb: Annotated[
        Gigabytes | None, Key("size of the disk with `scratch`, in GB", "1900")
    ] = None


class Partition(SpecModel):
    """A partition of Slurm. `nodes`: how many nodes of each type it has.

    Partitions that have the same type share its nodes. `max_nodes`: the most that one job may
    have. `exclusive`: jobs always get whole nodes. `default_time`: of a job without a time limit.
    `def_mem_per_...`: MiB of a job that asks for no memory; `def_cpu_per_gpu`: of one that asks for
    no CPUs. `accounts`, `qos`: those of its jobs; any, if there are none. `deny_...`: of no job.
    """

    nodes: Annotated[
        dict[NameKey, NumberOfNodes],
        Key(
            "how many nodes of each type. Partitions with the same type share its nodes",
            "{a100: 936}",
        ),
    ]
    max_time: Annotated[
        MaxTime | None, Key("MaxTime, as Slurm writes it, or `UNLIMITED`", "1-00:00:00")
    ] = None
    max_nodes: Annotated[
        NumberOfNodes | None,
        Key(
            "MaxNodes, the most that one job gets. A larger job is refused, and the "
            "message says which limit it is: this one or the number of nodes",
            "64",
        ),
    ] = None
    exclusive: Annotated[
        Flag, Key("`true` if jobs always get whole nodes (`OverSubscribe=EXCLUSIVE`)", "true")
    ] = False
    default_time: Annotated[
        MaxTime | None,
        Key("DefaultTime, the limit of a job without `time_limit`: a warning names it", "01:00:00"),
    ] = None
    max_cpus_per_node: Annotated[
        NumberOfNodes | None,
        Key(
            "MaxCPUsPerNode: if nodes have more, jobs get that many CPUs of a node, and "
            "no whole nodes, which Slurm would refuse",
            "48",
        ),
    ] = None
    def_cpu_per_gpu: Annotated[
        NumberOfNodes | None,
        Key(
            "DefCpuPerGPU: the CPUs that a job on a part of a node gets for each of its "
            "GPUs, unless the spec has `cpus_per_task`",
            "12",
        ),
    ] = None
    def_mem_per_cpu: Annotated[
        Mebibytes | None,
        Key(
            "DefMemPerCPU, in MiB: what a job gets that asks for no memory. A warning "
            "says so if that is less than half of its share of a node",
            "4000",
        ),
    ] = None
    def_mem_per_gpu: Annotated[
        Mebibytes | None, Key("DefMemPerGPU, in MiB: the same for jobs with GPUs", "60000")
    ] = None
    def_mem_per_node: Annotated[
        Mebibytes | None, Key("DefMemPerNode, in MiB: the same", "250000")
    ] = None
    accounts: Annotated[
        tuple[Name, ...],
        Key(
            "AllowAccounts: the only ones that the partition takes. Another one in "
            "`sbatch` causes a warning, since Slurm also takes accounts below these",
            "[ml]",
        ),
    ] = ()
    qos: Annotated[tuple[Name, ...], Key("AllowQos: the same for a QOS", "[normal]")] = ()
    deny_accounts: Annotated[
        tuple[Name, ...],
        Key(
            "DenyAccounts: a job of one of them is refused, unless the partition has `accounts`, "
            "which alone counts then",
            "[guests]",
        ),
    ] = ()
    deny_qos: Annotated[tuple[Name, ...], Key("DenyQos: the same for a QOS", "[scavenger]")] = ()


class Description(Defaults):
    """All of a description. `shared`: the folders that all nodes share, with their file system.

    `slurm_commands`: the folder of srun, where it is not on every user's PATH.
    `memory_scheduling`: Slurm divides the nodes' memory (CR_*_Memory). `write_partition`: false
    where the site chooses the partition. `auto_resume`: SageMaker HyperPod's --auto-resume.
    """

    kind: Annotated[Literal["slurm"], Key("`slurm`", "slurm")]
    name: Annotated[
        Name | None, Key("the cluster's name in messages", "booster", default_is="the file's name")
    ] = None
    slurm_version: Annotated[
        Version | None,
        Key(
            "as `sinfo --version` prints it; decides which options a job may use, and "
            "which Slurm a [lab](lab.md) runs. One before 22.05 causes a warning: [Slurm "
            "versions](slurm-versions.md)",
            "23.02.7",
        ),
    ] = None
    default_partition: Annotated[
        Name | None,
        Key(
            "of jobs that name none: a spec without `queue` is planned for it where "
            "several partitions fit",
            "gpu",
        ),
    ] = None
    node_types: Annotated[
        dict[NameKey, NodeType],
        Key(
            "names, each with the keys below. A spec's `instance_type` selects one by this name",
            "{a100: {cpus: 96, gpus: 4}}",
        ),
    ]
    partitions: Annotated[
        dict[NameKey, Partition],
        Key(
            "names, each with the keys below. A spec's `queue` selects one",
            "{gpu: {nodes: {a100: 16}}}",
        ),
    ]
    shared: Annotated[
        dict[FolderKey, MountKind] | None,
        Key(
            "the folders that all nodes share, with their file system. List all of them, "
            "`/home` too: a path of a spec that is in none causes a warning",
            "{/scratch: lustre, /home: nfs}",
        ),
    ] = None
    slurm_commands: Annotated[
        Folder | None,
        Key(
            "the folder of `srun` and the other commands, if they are not on every user's PATH",
            "/opt/slurm/bin",
        ),
    ] = None
    memory_scheduling: Annotated[
        Flag | None,
        Key(
            "whether Slurm divides the memory of nodes (`CR_*_Memory` in `SelectTypeParameters`)",
            "true",
        ),
    ] = None
    write_partition: Annotated[
        Flag,
        Key(
            "`false` where the site chooses the partition: the job script has "
            "`--partition` only if the spec has `queue`",
            "false",
        ),
    ] = True
    container_program: Annotated[
        ContainerProgram | None,
        Key(
            "`pyxis`, `apptainer`, `singularity`, `docker` or `shifter`: the runtime of a"
            " `software.container` that names none",
            "pyxis",
        ),
    ] = None
    master_addr_suffix: Annotated[
        HostSuffix | None,
        Key(
            "added to the first node's name to get its address in the fast network, `MASTER_ADDR`",
            "i",
        ),
    ] = None
    auto_resume: Annotated[
        Flag,
        Key(
            "`true` on SageMaker HyperPod: `srun --auto-resume=1` where restarts are wanted", "true"
        ),
    ] = False
    accounts: Annotated[
        tuple[Name, ...],
        Key("the accounts that a spec may use in `sbatch`; others cause a warning", "[ml]"),
    ] = ()
    qos: Annotated[tuple[Name, ...], Key("the same for a QOS", "[normal]")] = ()

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
