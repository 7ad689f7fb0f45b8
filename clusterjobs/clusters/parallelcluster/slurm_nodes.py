"""The partitions and nodes that ParallelCluster creates in Slurm from a config.

This module knows what the head node's generator does (aws-parallelcluster-cookbook,
slurm/config_renderer.py and config_utils.py); it must not know experiments or run Slurm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from clusterjobs.catalog.gpus import gres_type
from clusterjobs.catalog.instances import InstanceType, find_instance_type, instance_type_names
from clusterjobs.clusters.parallelcluster.config import Cluster, ComputeResource, Queue
from clusterjobs.clusters.source import NodeGroup, Partition, SlurmShape
from clusterjobs.errors import InputError, Problem, did_you_mean
from clusterjobs.yaml.document import Document, Path

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


def slurm_partitions(cluster: Cluster, document: Document | None = None) -> tuple[Partition, ...]:
    """One partition per queue; the first one is the default.

    Raises InputError with everything that is unknown; `document` has the positions.
    """
    if problems := list(_unknown(cluster, document)):
        raise InputError(problems)
    return tuple(
        Partition(queue.name, _groups(queue), queue.job_exclusive, number == 0, queue.max_time)
        for number, queue in enumerate(cluster.queues)
    )


def _groups(queue: Queue) -> tuple[NodeGroup, ...]:
    groups = (
        _group(queue, resource, static)
        for resource in queue.compute_resources
        for static in (True, False)
    )
    return tuple(group for group in groups if group.count > 0)


def _group(queue: Queue, resource: ComputeResource, static: bool) -> NodeGroup:
    types = [found for name in resource.instance_types if (found := find_instance_type(name))]
    return NodeGroup(
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
