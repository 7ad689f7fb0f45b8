"""Makes cluster facts from a ParallelCluster config and the catalogue.

ParallelCluster's conventions stand here: which folders it always shares, the node sizes that it
gives to Slurm, and where it mounts local disks.
"""

import fnmatch
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from clusterjobs.catalog import (
    InstanceType,
    catalogue_date,
    find_instance_type,
    gres_type,
    instance_type_names,
)
from clusterjobs.clusters.facts import (
    ClusterFacts,
    Lack,
    Mount,
    NodeGroup,
    NodeType,
    Partition,
    Terms,
)
from clusterjobs.clusters.parallelcluster import config
from clusterjobs.clusters.parallelcluster.config import Cluster, ComputeResource, Queue, S3Access
from clusterjobs.clusters.source import SlurmNodes, SlurmPartition, SlurmShape
from clusterjobs.errors import InputError, Problem, did_you_mean
from clusterjobs.yaml.document import Document, Path

# ------------------------------------------------------------------ slurm nodes
# The partitions and nodes that ParallelCluster creates in Slurm from a config.
# Source: the generator on the head node (aws-parallelcluster-cookbook, slurm/config_renderer.py and
# config_utils.py).


# cookbook attribute realmemory_to_ec2memory_ratio: the rest is used by the kernel
_MEMORY_RATIO = 0.95
SLURM_COMMANDS = "/opt/slurm/bin"  # the cookbook's slurm install_dir


def slurm_shape(cluster: Cluster, document: Document | None = None) -> SlurmShape:
    """The cluster as its Slurm has it. Raises InputError with everything that is unknown."""
    return SlurmShape(
        name=cluster.name,
        partitions=slurm_partitions(cluster, document),
        shared=tuple(dict.fromkeys(mount.directory for mount in cluster.mounts)),
        memory_scheduling=cluster.memory_scheduling,
        slurm_version=cluster.slurm_version,
        commands=SLURM_COMMANDS,
        size_setting="MaxCount",
    )


def slurm_partitions(
    cluster: Cluster, document: Document | None = None
) -> tuple[SlurmPartition, ...]:
    """One partition per queue; the first one is the default.

    Raises InputError with everything that is unknown; `document` has the positions.
    """
    if problems := list(_unknown(cluster, document)):
        raise InputError(problems)
    return tuple(
        SlurmPartition(queue.name, _groups(queue), queue.job_exclusive, number == 0, queue.max_time)
        for number, queue in enumerate(cluster.queues)
    )


def _groups(queue: Queue) -> tuple[SlurmNodes, ...]:
    groups = (
        _group(queue, resource, static)
        for resource in queue.compute_resources
        for static in (True, False)
    )
    return tuple(group for group in groups if group.count > 0)


def _group(queue: Queue, resource: ComputeResource, static: bool) -> SlurmNodes:
    types = [found for name in resource.instance_types if (found := find_instance_type(name))]
    return SlurmNodes(
        prefix=f"{queue.name}-{'st' if static else 'dy'}-{resource.name}-",
        count=resource.min_count if static else (resource.max_count or 0) - resource.min_count,
        cpus=slurm_cpus(types, resource.disable_smt),
        real_memory=slurm_memory(types, resource.schedulable_memory_mib),
        gres=_gres(types),
        features=_features(types, resource, static),
        weight=resource.static_weight if static else resource.dynamic_weight,
        static=static,
        scratch=queue.scratch_dir,
    )


# For several instance types, the smallest of each number: a node may have any of them.


def slurm_cpus(types: Sequence[InstanceType], disable_smt: bool) -> int:
    """The CPUs, as Slurm counts them, of a node that may have any of these types."""
    vcpus = min(found.vcpus for found in types)
    return vcpus // min(found.threads_per_core for found in types) if disable_smt else vcpus


def slurm_memory(types: Sequence[InstanceType], schedulable_memory_mib: int | None) -> int:
    """The memory, as Slurm counts it, of a node that may have any of these types."""
    smallest = min(found.memory_mib for found in types)
    return schedulable_memory_mib or math.floor(smallest * _MEMORY_RATIO)


def _gres(types: Sequence[InstanceType]) -> str:
    fewest = min(types, key=lambda found: found.gpus)
    return f"gpu:{gres_type(fewest.gpu_model)}:{fewest.gpus}" if fewest.gpus else ""


def _features(
    types: Sequence[InstanceType], resource: ComputeResource, static: bool
) -> tuple[str, ...]:
    features = ["static" if static else "dynamic"]
    if len(types) == 1:  # with several types it is not known which one a node will have
        features.append(types[0].name)
    features.append(resource.name)
    if resource.efa:
        features.append("efa")
    if _gres(types):
        features.append("gpu")
    return tuple(features)


# ------------------------------------------------------------------ what must be known


def _unknown(cluster: Cluster, document: Document | None) -> list[Problem]:
    problems: list[Problem] = []

    def add(path: Path, what: str, hint: str = "") -> None:
        where = document.locate(path) if document else None
        problems.append(Problem(what, where, ".".join(map(str, path)), hint))

    for queue in cluster.queues:
        if not queue.name:
            what = f"{queue.placeholder} was not filled in" if queue.placeholder else ""
            add((*queue.path, "Name"), what or "the queue's name is not known", _FILL_IN)
        for resource in queue.compute_resources:
            for path, what, hint in _unknown_of_resource(resource):
                add((*resource.path, *path), what, hint)
    return problems


_FILL_IN = "Slurm's nodes follow from it: write the value itself, or a site value"


def _unknown_of_resource(resource: ComputeResource) -> list[tuple[Path, str, str]]:
    found: list[tuple[Path, str, str]] = []
    if not resource.name:
        found.append((("Name",), "the compute resource's name is not known", _FILL_IN))
    if resource.max_count is None:
        found.append((("MaxCount",), "the number of nodes is not known", _FILL_IN))
    if not resource.instance_types:
        what = f"{resource.placeholder} was not filled in" if resource.placeholder else ""
        what = what or "the instance type is unknown"
        found.append((("InstanceType",), what, _FILL_IN))
    new = [name for name in resource.instance_types if find_instance_type(name) is None]
    where: Path = ("InstanceType",)
    found += [(where, f"{name} is not in the catalogue", _similar(name)) for name in new]
    return found


def _similar(name: str) -> str:
    """Suggests types of the same family only: other similar names are not better guesses."""
    family = name.partition(".")[0] + "."
    siblings = [other for other in instance_type_names() if other.startswith(family)]
    return did_you_mean(name, siblings) or _REFRESH


_REFRESH = "is it new? python -m clusterjobs.catalog.refresh reads it from your AWS account"


# ------------------------------------------------------------------ s3 access
# The buckets that the nodes of a queue may access, by its Iam.S3Access.


class S3Rules(NamedTuple):
    """The entries of Iam.S3Access."""

    rules: tuple[S3Access, ...]

    def lack(self, bucket: str, writes: bool) -> Lack | None:
        """What is missing, with the entry that would grant it; None if nothing is missing."""
        entry = f"{{BucketName: {bucket}{', EnableWriteAccess: true' if writes else ''}}}"
        hint = f"Iam.S3Access of the queue needs {entry}, and the cluster an update"
        what = self._lack(bucket, writes)
        return Lack(what, hint) if what else None

    def _lack(self, bucket: str, writes: bool) -> str:
        """Reading and writing both list the bucket, which a KeyName does not allow."""
        named = [rule for rule in self.rules if fnmatch.fnmatchcase(bucket, rule.bucket)]
        whole = [rule for rule in named if not rule.has_key_name]
        if not named:
            return "its Iam.S3Access does not name it" if self.rules else "it has no Iam.S3Access"
        if not whole:
            return "its Iam.S3Access has a KeyName, with which nothing can be listed"
        if writes and not any(rule.writes for rule in whole):
            return "its Iam.S3Access lacks EnableWriteAccess"
        return ""


# Shared, although they are not in SharedStorage.
_ALWAYS_SHARED = ("/home", "/opt/parallelcluster/shared", "/opt/intel")
_KINDS = {"FsxLustre": "lustre", "FsxOntap": "ontap", "FsxOpenZfs": "openzfs"}
_TERMS = Terms(
    node_facts="catalogue",
    node_facts_note=f", which has EC2's types of {catalogue_date()},",
    mounts="SharedStorage",
    max_nodes="MaxCount",
    exclusive="JobExclusiveAllocation",
    capacity="StorageCapacity",
    enable_fabric="Efa: {Enabled: true} in the compute resource of the cluster's config",
    one_thread_per_core="DisableSimultaneousMultithreading: true in the compute resource leaves "
    "them idle, and cpus_per_task counts cores",
    other_version="If the cluster has another release of ParallelCluster, write it into the "
    "site.yaml, for example parallelcluster: 3.13.1",
)


def cluster_facts(cluster: config.Cluster) -> ClusterFacts:
    """The facts of a config."""
    return ClusterFacts(
        name=cluster.name,
        partitions=tuple(map(_partition, cluster.queues)),
        mounts=tuple(map(_mount, cluster.mounts)),
        mounts_complete=cluster.mounts_complete,
        shared_folders=_ALWAYS_SHARED,
        slurm_version=cluster.slurm_version,
        newer_release=cluster.newer_release and f"ParallelCluster {cluster.newer_release}",
        bucket_service="FSx for Lustre",
        slurm_commands=SLURM_COMMANDS,
        default_partition=cluster.queues[0].name if cluster.queues else "",
        terms=_TERMS,
        region=cluster.region or "",
    )


def _partition(queue: config.Queue) -> Partition:
    return Partition(
        queue.name,
        tuple(_node_group(one, queue.capacity_type) for one in queue.compute_resources),
        exclusive=queue.job_exclusive,
        local_disk="/" + queue.scratch_dir.strip("/"),
        max_time=queue.max_time,
        placeholder=queue.placeholder,
        bucket_access=None if queue.s3_access is None else S3Rules(queue.s3_access),
    )


def _mount(mount: config.Mount) -> Mount:
    kind = _KINDS.get(mount.storage_type, mount.storage_type.lower())
    name = mount.name or mount.storage_type
    capacity, per_tib = mount.capacity_gib, mount.throughput_per_tib
    throughput = per_tib * capacity / 1024 if capacity and per_tib else None
    return Mount(mount.directory, kind, name, capacity, throughput)


def _node_group(resource: config.ComputeResource, capacity_type: str) -> NodeGroup:
    """Of several instance types it is unknown beforehand which one a node will be.

    So of all of them nothing is known where the catalogue lacks one.
    """
    names = resource.instance_types
    found = [find_instance_type(name) for name in names]
    known = [one for one in found if one] if None not in found else []
    node_type = _node_type(" or ".join(names), known, resource)
    return NodeGroup(
        resource.name,
        node_type._replace(placeholder=resource.placeholder),
        names,
        resource.max_count,
        "efa" if resource.efa else "ethernet",
        (*(names if len(names) == 1 else ()), resource.name),
        purchase=capacity_type,
    )


def _node_type(
    name: str, types: Sequence[InstanceType], resource: config.ComputeResource
) -> NodeType:
    """The smallest of each number: ParallelCluster gives Slurm no more."""
    if not types:
        return NodeType(name)
    fewest = min(types, key=lambda found: found.gpus)
    interfaces = least(found.efa_interfaces for found in types)
    slowest = least(found.network_gbps for found in types)
    device = min(types, key=lambda found: found.accelerators)
    return NodeType(
        name,
        cpus=slurm_cpus(types, resource.disable_smt),
        memory_mib=slurm_memory(types, resource.schedulable_memory_mib),
        gpus=fewest.gpus,
        gpu_model=fewest.gpu_model,
        gpu_gres_type=gres_type(fewest.gpu_model) if fewest.gpus else "",
        gpu_memory_gib=fewest.gpu_memory_mib / 1024 if fewest.gpus else None,
        gpudirect_rdma=all(found.gpudirect_rdma for found in types),
        fabric={None: "", 0: "ethernet"}.get(interfaces, "efa"),
        fabric_interfaces=interfaces,
        network_gbps=slowest,
        local_disk_gb=min(found.nvme_gb for found in types),
        accelerator=f"{device.accelerators} {device.accelerator_model}".removeprefix("0 "),
        accelerator_ranks=device.accelerator_ranks,
        cpus_are_cores=resource.disable_smt or all(found.threads_per_core == 1 for found in types),
        neuron_cores=min(found.neuron_cores for found in types),
    )


_Number = TypeVar("_Number", int, float)


def least(numbers: Iterable[_Number | None]) -> _Number | None:
    """The smallest; None (unknown) if one of them is unknown."""
    known: list[_Number] = []
    for number in numbers:
        if number is None:
            return None
        known.append(number)
    return min(known)
