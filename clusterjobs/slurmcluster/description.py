"""The description of a Slurm cluster, key by key: what a person or an import writes.

It knows the keys and the types of single values. It must not know whether values fit each other
(`read.py`), nor what a plan makes of them (`facts.py`). None means that the key is left out: the
value is unknown.
"""

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clusterjobs.slurmcluster import value_types as types
from clusterjobs.spec import commands, field_types
from clusterjobs.spec.model import SpecModel

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

    value: field_types.Text
    reason: types.Reason


Variables = dict[field_types.EnvironmentName, Annotated[SiteVariable, BeforeValidator(_variable)]]


class Defaults(SpecModel):
    """Keys that stand at the top, for all node types, or in one of them, which then has its own.

    `env`, `source` and `setup` of a node type are added to those at the top.
    """

    fabric: Fabric | None = None
    fabric_interfaces: types.Count | None = None
    network_gbps: types.Number | None = None
    scratch: types.Folder | None = None
    request_gpus: GpuRequests | None = None
    env: Variables = Field(default_factory=dict)
    source: tuple[types.Folder, ...] = ()
    setup: commands.Code = ()


class NodeType(Defaults):
    """Nodes that are alike. `cpus` as Slurm counts them (CPUTot), `memory_mib` its RealMemory.

    `gpus`: 0 for none, also those that are no GRES. `gpu_type`: the type in Slurm's Gres.
    `gpu_model`: the maker's name, as `H100`. `gpu_memory`: of one GPU, in GiB. `network_gbps`: of
    one node, all interfaces together. `scratch`: a folder on the node's own disk, of
    `local_disk_gb`.
    """

    cpus: types.Count | None = None
    threads_per_core: types.Count | None = None
    memory_mib: types.Mebibytes | None = None
    gpus: types.Gpus | None = None
    gpu_type: types.Name | None = None
    gpu_model: types.Line | None = None
    gpu_memory: types.Number | None = None
    features: Annotated[tuple[types.Feature, ...], Field(max_length=200)] = ()
    local_disk_gb: types.Count | None = None


class Partition(SpecModel):
    """A partition of Slurm. `nodes`: how many nodes of each type it has.

    Partitions that have the same type share its nodes. `max_nodes`: the most that one job may
    have. `exclusive`: jobs always get whole nodes.
    """

    nodes: dict[types.NameKey, types.NumberOfNodes]
    max_time: types.MaxTime | None = None
    max_nodes: types.NumberOfNodes | None = None
    exclusive: types.Flag = False


class Description(Defaults):
    """All of a description. `shared`: the folders that all nodes share, with their file system.

    `slurm_commands`: the folder of srun, where it is not on every user's PATH.
    `memory_scheduling`: Slurm divides the nodes' memory (CR_*_Memory). `write_partition`: false
    where the site chooses the partition. `auto_resume`: SageMaker HyperPod's --auto-resume.
    """

    kind: Literal["slurm"]
    name: types.Name | None = None
    slurm_version: types.Version | None = None
    default_partition: types.Name | None = None
    node_types: dict[types.NameKey, NodeType]
    partitions: dict[types.NameKey, Partition]
    shared: dict[types.FolderKey, types.MountKind] | None = None
    slurm_commands: types.Folder | None = None
    memory_scheduling: types.Flag | None = None
    write_partition: types.Flag = True
    container_program: ContainerProgram | None = None
    master_addr_suffix: types.HostSuffix | None = None
    auto_resume: types.Flag = False
    accounts: tuple[types.Name, ...] = ()
    qos: tuple[types.Name, ...] = ()

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
