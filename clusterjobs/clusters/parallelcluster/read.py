"""Reads any ParallelCluster 3 config, leniently.

This module knows ParallelCluster's keys; it must not know Slurm, AWS accounts or experiments. Real
configs have placeholders and old values: a value that cannot be read is unknown, not an error. Only
a file that is not a ParallelCluster config is refused.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from clusterjobs.clusters.parallelcluster.config import (
    Cluster,
    ComputeResource,
    Mount,
    Queue,
    S3Access,
    slurm_version,
)
from clusterjobs.clusters.parallelcluster.detect import (
    at,
    find_config,
    items,
    load_config,
    number,
    placeholder,
    text,
    truth,
)
from clusterjobs.clusters.parallelcluster.site_values import substitute
from clusterjobs.slurm.time import seconds_of
from clusterjobs.yaml.document import Document, Path

# pcluster/constants.py of ParallelCluster 3.16.1
DEFAULT_MIN_COUNT = 0
DEFAULT_MAX_COUNT = 10
DEFAULT_SCRATCH_DIR = "/scratch"


def read_cluster(source: str, file: str, site: Mapping[str, object]) -> tuple[Cluster, Document]:
    """The facts of a config, and its document for the positions of its values.

    `site`: the values of `{{ site.x }}`; without one, the value is unknown. Raises InputError if
    the text is not YAML, or not a ParallelCluster 3 config.
    """
    document = load_config(source, file)
    path = find_config(document)
    data = substitute(document, site).value
    for key in path:
        data = data[key]
    cluster = _cluster(data, file, path)._replace(slurm_version=slurm_version(site))
    return cluster, document


def _cluster(data: dict[str, Any], file: str, path: Path) -> Cluster:
    custom_ami = text(at(data, "Image", "CustomAmi"))
    mounts = [_mount(entry, place) for entry, place in _entries(data, path, "SharedStorage")]
    queues = _entries(at(data, "Scheduling"), (*path, "Scheduling"), "SlurmQueues")
    return Cluster(
        name=pathlib.PurePath(file).stem,
        file=file,
        region=text(at(data, "Region")),
        os=text(at(data, "Image", "Os")),
        memory_scheduling=bool(truth(at(data, *_MEMORY_SCHEDULING))),
        queues=tuple(_queue(entry, place, custom_ami) for entry, place in queues),
        mounts=tuple(mount for mount in mounts if mount),
        mounts_complete=None not in mounts,
        custom_ami=custom_ami,
        path=path,
    )


_MEMORY_SCHEDULING = ("Scheduling", "SlurmSettings", "EnableMemoryBasedScheduling")
_SCRATCH_DIR = ("ComputeSettings", "LocalStorage", "EphemeralVolume", "MountDir")


def _entries(data: Any, path: Path, key: str) -> list[tuple[dict[str, Any], Path]]:
    """The mappings in the list under `key`, each with its path."""
    return [
        (entry, (*path, key, index))
        for index, entry in enumerate(items(at(data, key)))
        if isinstance(entry, dict)
    ]


def _queue(data: dict[str, Any], path: Path, custom_ami: str | None) -> Queue:
    resources = _entries(data, path, "ComputeResources")
    subnets = [text(subnet) for subnet in items(at(data, "Networking", "SubnetIds"))]
    return Queue(
        name=text(at(data, "Name")) or "",
        compute_resources=tuple(_compute_resource(entry, place) for entry, place in resources),
        capacity_type=(text(at(data, "CapacityType")) or "ONDEMAND").upper(),
        placement_group=_placement_group(data, [entry for entry, _ in resources]),
        subnet_ids=tuple(subnet for subnet in subnets if subnet),
        job_exclusive=bool(truth(at(data, "JobExclusiveAllocation"))),
        scratch_dir=text(at(data, *_SCRATCH_DIR)) or DEFAULT_SCRATCH_DIR,
        path=path,
        custom_ami=text(at(data, "Image", "CustomAmi")) or custom_ami,
        s3_access=_s3_access(data.get("Iam")),
        max_time=_max_time(at(data, "CustomSlurmSettings")),
        placeholder=placeholder(at(data, "Name")),
    )


def _max_time(settings: Any) -> int | None:
    """A queue's MaxTime. Slurm ignores the case of keys (slurm.conf(5)); 0 would allow no job."""
    values = settings.items() if isinstance(settings, dict) else ()
    written = next((text(value) for key, value in values if key.lower() == "maxtime"), None)
    return seconds_of(written) or None if written else None


_WITHOUT_S3 = ("AmazonSSMManagedInstanceCore",)  # AWS's, without access to buckets


def _s3_access(iam: Any) -> tuple[S3Access, ...] | None:
    """None if a role or a policy may allow more, or if a bucket is a placeholder.

    An entry allows the whole bucket, or with a KeyName only the objects of that name
    (S3Access.resource_regex of ParallelCluster 3.16).
    """
    policies = [
        text(at(policy, "Policy")) or "" for policy in items(at(iam, "AdditionalIamPolicies"))
    ]
    rules, known = at(iam, "S3Access"), isinstance(iam, (dict, type(None)))
    elsewhere = at(iam, "InstanceRole") or at(iam, "InstanceProfile")
    if not known or elsewhere or not all(policy.endswith(_WITHOUT_S3) for policy in policies):
        return None
    found = [(text(at(rule, "BucketName")), rule) for rule in items(rules)]
    if not isinstance(rules, (list, type(None))) or any(bucket is None for bucket, _ in found):
        return None
    return tuple(
        S3Access(
            bucket or "",
            at(rule, "KeyName") is not None,
            truth(rule.get("EnableWriteAccess", False)) is not False,
        )
        for bucket, rule in found
    )


def _compute_resource(data: dict[str, Any], path: Path) -> ComputeResource:
    single = at(data, "InstanceType")
    several = [at(entry, "InstanceType") for entry in items(at(data, "Instances"))]
    return ComputeResource(
        name=text(at(data, "Name")) or "",
        instance_types=tuple(known for kind in [*several, single] if (known := text(kind))),
        min_count=_count(data, "MinCount", DEFAULT_MIN_COUNT) or 0,
        max_count=_count(data, "MaxCount", DEFAULT_MAX_COUNT),
        efa=bool(truth(at(data, "Efa", "Enabled"))),
        disable_smt=bool(truth(at(data, "DisableSimultaneousMultithreading"))),
        schedulable_memory_mib=number(at(data, "SchedulableMemory")),
        path=path,
        static_weight=number(at(data, "StaticNodePriority")) or 1,
        dynamic_weight=number(at(data, "DynamicNodePriority")) or 1000,
        placeholder=next(filter(None, map(placeholder, [*several, single])), ""),
    )


def _count(data: dict[str, Any], key: str, default: int) -> int | None:
    """The default only if the key is missing: a placeholder can be any number."""
    return number(data[key]) if key in data else default


def _placement_group(queue: dict[str, Any], resources: list[dict[str, Any]]) -> bool | None:
    """Whether each compute resource has one; its own setting overrides the queue's.

    ParallelCluster creates one group per compute resource, not per queue
    (SlurmQueue.get_placement_group_settings_for_compute_resource).
    """
    of_queue = _one_placement_group(at(queue, "Networking", "PlacementGroup"))
    found = [
        of_queue if own is None else _one_placement_group(own)
        for own in (at(resource, "Networking", "PlacementGroup") for resource in resources)
    ]
    if False in found:
        return False
    return None if None in found else True if found else of_queue


def _one_placement_group(value: Any) -> bool | None:
    """A name or an id is enough to enable it, unless Enabled is false."""
    enabled = truth(at(value, "Enabled"))
    named = at(value, "Name") or at(value, "Id")
    return True if enabled is None and named else enabled


def _mount(data: dict[str, Any], path: Path) -> Mount | None:
    """None if the folder is unknown. ParallelCluster mounts a relative folder below /."""
    directory = text(at(data, "MountDir"))
    if directory is None:
        return None
    return Mount(
        directory="/" + directory.strip("/"),
        name=text(at(data, "Name")) or "",
        storage_type=text(at(data, "StorageType")) or "",
        path=path,
        capacity_gib=number(at(data, "FsxLustreSettings", "StorageCapacity")),
        throughput_per_tib=number(at(data, "FsxLustreSettings", "PerUnitStorageThroughput")),
    )
