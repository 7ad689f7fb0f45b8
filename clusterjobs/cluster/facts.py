"""What a plan needs to know of a cluster, from any source.

Only shapes, in Slurm's own terms; it must not know vendors, config files or experiments. None
is unknown; 0, "" and () are known to be nothing.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from clusterjobs.errors import Location


class NodeType(NamedTuple):
    """A kind of node. Of one that may be any of several (`a or b`), the smallest numbers.

    `cpus` are Slurm's. `fabric`: the fast network that it could use, with so many interfaces;
    whether it does is said by its group. `gpu_model` as NVIDIA names it: `V100`. `accelerator`
    names devices that are no GPUs to Slurm (`16 Trainium`), and so many ranks use all of them.
    """

    name: str
    cpus: int | None = None
    memory_mib: int | None = None
    gpus: int | None = None
    gpu_model: str | None = None
    gpudirect_rdma: bool | None = None
    fabric: str = ""
    fabric_interfaces: int | None = None
    network_gbps: float | None = None
    local_disk_gb: int | None = None
    accelerator: str = ""
    accelerator_ranks: int = 0


class NodeGroup(NamedTuple):
    """Nodes of a partition that are alike.

    `type_names`: the node types by which a spec may choose it, `max_nodes` None is no limit that
    is known. `fabric` is "efa", "infiniband", "ethernet" or "". `features` are Slurm's, the ones
    to choose it by first.
    """

    name: str
    node_type: NodeType
    type_names: tuple[str, ...] = ()
    max_nodes: int | None = None
    fabric: str = ""
    features: tuple[str, ...] = ()


class Lack(NamedTuple):
    """A right that the nodes do not have, and how they would get it."""

    what: str
    hint: str


class BucketAccess(Protocol):
    """Which buckets the nodes of a partition may use."""

    def lack(self, bucket: str, writes: bool) -> Lack | None:
        """What is missing to read, or to write, everything in a bucket; None: nothing is."""


class Partition(NamedTuple):
    """A partition of Slurm. `exclusive`: it gives whole nodes, even to jobs that would share.

    `local_disk` is where nodes that have disks of their own mount them. `max_time` in seconds,
    None also where there is none. `bucket_access` is None where it is unknown.
    """

    name: str
    node_groups: tuple[NodeGroup, ...]
    exclusive: bool = False
    local_disk: str | None = None
    max_time: int | None = None
    bucket_access: BucketAccess | None = None


class Mount(NamedTuple):
    """A folder that all nodes share. `kind` is "lustre", "nfs", "efs", "ebs" ..."""

    path: str
    kind: str
    name: str = ""
    capacity_gib: int | None = None


class Terms(NamedTuple):
    """The source's own terms, used in messages that say what to look at or to change."""

    node_facts: str = "cluster"  # what knows the numbers of a node type
    node_facts_note: str = ""  # said of it where it does not know a type
    mounts: str = "mounts"
    max_nodes: str = "nodes"
    exclusive: str = "OverSubscribe=EXCLUSIVE"
    capacity: str = "file system"
    enable_fabric: str = "enable it on the nodes of the queue"


class ClusterFacts(NamedTuple):
    """A cluster. `mounts_complete` is False where a folder missing from `mounts` may be shared.

    `shared_folders` are shared without being mounts of their own. `bucket_service`: the service
    whose Lustre file systems can show and export a bucket in a folder, "" without one.
    """

    name: str
    partitions: tuple[Partition, ...]
    mounts: tuple[Mount, ...] = ()
    mounts_complete: bool = True
    shared_folders: tuple[str, ...] = ("/home",)
    slurm_version: str | None = None
    bucket_service: str = ""
    terms: Terms = Terms()

    def partition(self, name: str) -> Partition:
        """The partition of that name, which must be one of the cluster's."""
        return next(one for one in self.partitions if one.name == name)


class BucketLink(NamedTuple):
    """A folder that is to show a bucket, or from which what is new is to be exported to it.

    `folder` as nodes see it; `where` is the value of the spec that wants it, for problems.
    """

    folder: str
    bucket_path: str
    reason: str
    export: bool = False
    where: Location | None = None
