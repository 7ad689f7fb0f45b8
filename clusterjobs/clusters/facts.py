"""What a plan needs to know about a cluster, from any source.

Data classes only, in Slurm's own terms. None means unknown; 0, "" and () mean that there is none.
"""

import re
from typing import Literal, NamedTuple, Protocol

from clusterjobs.errors import Location


class SiteVariable(NamedTuple):
    """An environment variable that jobs on some nodes need, and why."""

    name: str
    value: str
    reason: str


class NodeType(NamedTuple):
    """A type of node. If a node may be one of several types, the smallest number of each.

    `cpus` and `memory_mib` as Slurm counts them. `fabric`: the fast network that the type supports,
    and the number of its interfaces; the node's group says whether it is used. `gpu_model` is
    NVIDIA's: `V100`; `gpu_gres_type` is the type in Slurm's Gres, `v100`; "" if unknown.
    `variables`, `source` (files of bash) and `setup` (lines of bash) are what its jobs need.
    `request_gpus`: the directive for GPUs, "gpus-per-node", "gres", "gpus-per-task" or "none"; ""
    for the default.
    `accelerator` names devices that Slurm does not count as GPUs (`16 Trainium`);
    `accelerator_ranks` use all of them, and `neuron_cores` are those of AWS Neuron among them.
    `cpus_are_cores`: one thread of each core is in use. `threads_per_core`: Slurm's own number.
    `scratch`: where it mounts its local disk; None if its partition says that.
    `placeholder` stands where the name was to be filled in. `gpu_memory_gib` is that of one GPU.
    `max_cpus`: what one job gets of a node at most, in a partition that divides its nodes.
    """

    name: str
    cpus: int | None = None
    memory_mib: int | None = None
    gpus: int | None = None
    gpu_model: str | None = None
    gpu_gres_type: str = ""
    gpu_memory_gib: float | None = None
    gpudirect_rdma: bool | None = None
    fabric: str = ""
    fabric_interfaces: int | None = None
    network_gbps: float | None = None
    local_disk_gb: int | None = None
    scratch: str | None = None
    variables: tuple[SiteVariable, ...] = ()
    source: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    request_gpus: str = ""
    accelerator: str = ""
    accelerator_ranks: int = 0
    cpus_are_cores: bool | None = None
    neuron_cores: int = 0
    placeholder: str = ""
    threads_per_core: int | None = None
    max_cpus: int | None = None

    @property
    def in_words(self) -> str:
        """The type with an article: `a p4d.24xlarge`; `a node of type a100` (an A100 is a GPU)."""
        return f"a {self.name}" if "." in self.name else f"a node of type {self.name}"

    @property
    def has_amd_gpus(self) -> bool:
        """Whether its GPUs are AMD's, such as `MI250X`: NVIDIA's programs do not find them."""
        return bool(re.search(r"\bMI\d", self.gpu_model or "", re.IGNORECASE))


class NodeGroup(NamedTuple):
    """Identical nodes of a partition.

    `type_names`: the node types that select this group in a spec. `max_nodes`: None if no limit
    is known; `limit`: what sets it, if not `Terms.max_nodes`. `fabric` is "efa", "infiniband",
    "ethernet" or "". `features` are Slurm's; those that select the group come first. `purchase`:
    how the nodes are paid for, as the catalogue of prices names it (`ONDEMAND`); "" if unknown.
    """

    name: str
    node_type: NodeType
    type_names: tuple[str, ...] = ()
    max_nodes: int | None = None
    fabric: str = ""
    features: tuple[str, ...] = ()
    purchase: str = ""
    limit: str = ""


class Lack(NamedTuple):
    """A permission that the nodes lack, and how to grant it."""

    what: str
    hint: str


class BucketAccess(Protocol):
    """Which buckets the nodes of a partition may use."""

    def lack(self, bucket: str, writes: bool) -> Lack | None:
        """What is missing to read or write everything in a bucket; None if nothing is missing."""


class DefaultMemory(NamedTuple):
    """The memory of a job that asks for none, for each CPU, GPU or node: Slurm's DefMemPer*."""

    each: Literal["CPU", "GPU", "Node"]
    mib: int


class Partition(NamedTuple):
    """A partition of Slurm. `exclusive`: it always allocates whole nodes.

    `local_disk`: where nodes mount their local disks, if they have some. `max_time` in seconds;
    None if it is unlimited or unknown, like `default_time`, the limit of a job that names none.
    `default_memory`: the first that fits is used; one for GPUs fits a job with GPUs.
    `default_cpus_per_gpu`: of a job that names no CPUs. `accounts`, `qos`: of the jobs that it
    takes; () if all. `deny_accounts`, `deny_qos`: of those that it refuses.
    `bucket_access`: None if unknown. `name` is "" if `placeholder` stands where it was to be filled
    in.
    """

    name: str
    node_groups: tuple[NodeGroup, ...]
    exclusive: bool = False
    local_disk: str | None = None
    max_time: int | None = None
    bucket_access: BucketAccess | None = None
    placeholder: str = ""
    default_time: int | None = None
    default_memory: tuple[DefaultMemory, ...] = ()
    default_cpus_per_gpu: int | None = None
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    deny_accounts: tuple[str, ...] = ()
    deny_qos: tuple[str, ...] = ()


class Mount(NamedTuple):
    """A folder that all nodes share. `kind` is "lustre", "nfs", "efs", "ebs" ...

    `throughput_mbs`: 10^6 bytes/s that all nodes together can write.
    """

    path: str
    kind: str
    name: str = ""
    capacity_gib: int | None = None
    throughput_mbs: float | None = None


class Terms(NamedTuple):
    """The source's own terms, for messages that say what to check or change.

    `one_thread_per_core`: how to leave threads idle where Slurm takes each of them for a core; ""
    where it knows the threads. `other_version`: what to do if the cluster has another Slurm.
    """

    node_facts: str = "cluster"  # the source of a node type's numbers
    node_facts_note: str = ""  # added to it if it does not know a type
    mounts: str = "mounts"
    max_nodes: str = "nodes"
    exclusive: str = "OverSubscribe=EXCLUSIVE"
    capacity: str = "file system"
    enable_fabric: str = "enable it on the nodes of the queue"
    one_thread_per_core: str = ""
    other_version: str = ""


class ClusterFacts(NamedTuple):
    """A cluster. `mounts_complete`: False if a folder that is not in `mounts` may be shared, too.

    `shared_folders` are shared, but are not mounts themselves. `bucket_service`: the service whose
    Lustre file systems can link a folder to a bucket; "" if there is none. `slurm_commands`: the
    folder of srun and the other commands on the nodes; "" if they are on every user's PATH.
    `default_partition`: of jobs that name none; "" if unknown. `uses_default`: where several fit,
    such a job is planned for it. `auto_resume`: after a failure, `srun --auto-resume=1` restarts a
    step on other nodes, or requeues its job (HyperPod).
    `region`: whose prices are valid; "" if unknown.
    `write_partition`: False if the site chooses the partition of a job that names none.
    `master_addr_suffix`: added to a node's name, it gives the node's address in the fast network.
    `container_program`, `accounts` and `qos` are what jobs may use; "" and () if unknown.
    `newer_release`: of its software, if clusterjobs does not know it: `ParallelCluster 3.99.0`.
    """

    name: str
    partitions: tuple[Partition, ...]
    mounts: tuple[Mount, ...] = ()
    mounts_complete: bool = True
    shared_folders: tuple[str, ...] = ("/home",)
    slurm_version: str | None = None
    newer_release: str = ""
    bucket_service: str = ""
    slurm_commands: str = ""
    default_partition: str = ""
    uses_default: bool = False
    auto_resume: bool = False
    write_partition: bool = True
    master_addr_suffix: str = ""
    container_program: str = ""
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    terms: Terms = Terms()
    region: str = ""

    def partition(self, name: str) -> Partition:
        """The partition of that name, or the only one whose name was not filled in."""
        found = self.find_partition(name)
        assert found is not None
        return found

    def find_partition(self, name: str) -> Partition | None:
        """The partition of that name; None if there is none."""
        named = [one for one in self.partitions if one.name == name]
        unnamed = [one._replace(name=name) for one in self.partitions if not one.name]
        return next(iter(named), unnamed[0] if len(unnamed) == 1 else None)


class BucketLink(NamedTuple):
    """A folder that the file system links to a bucket: to show it, or to export new files to it.

    `folder` is the path on the nodes. `where` is the spec's value that asks for it, for problems.
    """

    folder: str
    bucket_path: str
    reason: str
    export: bool = False
    where: Location | None = None
