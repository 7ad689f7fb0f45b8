"""Iterates over the parts of a config's plain data, with their paths.

This module knows ParallelCluster's nesting; it must not know what is right or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusterjobs.parallelcluster.coerce import at, items, text
from clusterjobs.yaml.document import Path

Data = dict[str, Any]
Entry = tuple[Path, Data]  # the path of a mapping, and the mapping

FSX_LUSTRE = "FsxLustreSettings"


def entries(data: Any, path: Path, key: str) -> Iterator[Entry]:
    """The mappings in the list under `key`."""
    for index, entry in enumerate(items(at(data, key))):
        if isinstance(entry, dict):
            yield (*path, key, index), entry


def queues(data: Data) -> Iterator[Entry]:
    """Every entry of SlurmQueues."""
    return entries(at(data, "Scheduling"), ("Scheduling",), "SlurmQueues")


def compute_resources(queue: Entry) -> Iterator[Entry]:
    """Every entry of one queue's ComputeResources."""
    return entries(queue[1], queue[0], "ComputeResources")


def login_pools(data: Data) -> Iterator[Entry]:
    """Every entry of LoginNodes: Pools."""
    return entries(at(data, "LoginNodes"), ("LoginNodes",), "Pools")


def storages(data: Data) -> Iterator[Entry]:
    """Every entry of SharedStorage."""
    return entries(data, (), "SharedStorage")


def associations(storage: Entry) -> Iterator[Entry]:
    """Every data repository association of one Lustre file system."""
    path, entry = storage
    settings = at(entry, FSX_LUSTRE)
    return entries(settings, (*path, FSX_LUSTRE), "DataRepositoryAssociations")


def instance_types(resource: Data) -> list[str]:
    """The types of a compute resource, from `InstanceType` or `Instances`."""
    several = [at(entry, "InstanceType") for entry in items(at(resource, "Instances"))]
    return [known for kind in [*several, at(resource, "InstanceType")] if (known := text(kind))]


def all_instance_types(data: Data) -> list[str]:
    """The types of the head node, the login nodes and all compute resources."""
    resources = [entry for queue in queues(data) for _, entry in compute_resources(queue)]
    pools = [pool for _, pool in login_pools(data)]
    owners = [at(data, "HeadNode"), *pools, *resources]
    return [kind for owner in owners for kind in instance_types(owner)]


def subnet_ids(owner: Data) -> list[str]:
    """The subnets of a queue, a login pool or the head node."""
    networking = at(owner, "Networking")
    listed = [*items(at(networking, "SubnetIds")), at(networking, "SubnetId")]
    return [known for subnet in listed if (known := text(subnet))]


def scalars(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every scalar in the value, with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from scalars(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from scalars(item, (*path, index))
    elif value is not None:
        yield path, value
