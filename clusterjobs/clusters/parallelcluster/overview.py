"""What a cluster has and what it costs, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusterjobs.catalog import InstanceType, Price, find_instance_type, find_price
from clusterjobs.clusters.parallelcluster.config import Cluster, ComputeResource, Queue
from clusterjobs.clusters.parallelcluster.detect import at, items, number, text
from clusterjobs.clusters.parallelcluster.facts import least


@dataclass(frozen=True)
class NodesRow:
    """One compute resource. None is unknown; `price` is of one node.

    `accelerator` are devices other than NVIDIA's GPUs, as `16 x Trainium`.
    """

    queue: str
    name: str
    instance_types: tuple[str, ...]
    min_nodes: int
    max_nodes: int | None
    gpus: int | None
    gpu: str
    accelerator: str
    efa_interfaces: int | None
    network_gbps: float | None
    memory_gib: int | None
    vcpus: int | None
    nvme_gb: int | None
    capacity: str
    price: Price | None

    @property
    def usd_per_hour(self) -> float | None:
        """The price of all nodes together."""
        if self.price is None or self.max_nodes is None:
            return None
        return self.price.usd_per_hour * self.max_nodes


@dataclass(frozen=True)
class StorageRow:
    """One shared folder. `size` and `speed` as text, "" if they are not given."""

    directory: str
    kind: str
    size: str
    speed: str


def node_rows(cluster: Cluster) -> list[NodesRow]:
    """One row per compute resource, in the order of the config."""
    return [
        _node_row(cluster, queue, resource)
        for queue in cluster.queues
        for resource in queue.compute_resources
    ]


def _node_row(cluster: Cluster, queue: Queue, resource: ComputeResource) -> NodesRow:
    types = [find_instance_type(name) for name in resource.instance_types]
    known = [one for one in types if one] if None not in types else []
    fewest = min(known, key=lambda one: (one.gpus, one.accelerators), default=None)
    memory = _least_of(known, "memory_mib")
    return NodesRow(
        queue=queue.name,
        name=resource.name,
        instance_types=resource.instance_types,
        min_nodes=resource.min_count,
        max_nodes=resource.max_count,
        gpus=fewest.gpus if fewest else None,
        gpu=_gpu(fewest),
        accelerator=_accelerator(fewest),
        efa_interfaces=_least_of(known, "efa_interfaces") if resource.efa else 0,
        network_gbps=_least_of(known, "network_gbps"),
        memory_gib=None if memory is None else memory // 1024,
        vcpus=_least_of(known, "vcpus"),
        nvme_gb=_least_of(known, "nvme_gb"),
        capacity=queue.capacity_type,
        price=_price(cluster, queue, resource),
    )


def _least_of(types: list[InstanceType], field: str) -> Any:
    """Of several types the smallest number, as the plan uses it; None if it is unknown."""
    return least(getattr(one, field) for one in types) if types else None


def _gpu(found: InstanceType | None) -> str:
    if not found or not found.gpus:
        return ""
    return f"{found.gpu_model} {round(found.gpu_memory_mib / 1024)} GB"


def _accelerator(found: InstanceType | None) -> str:
    if not found or not found.accelerators:
        return ""
    return f"{found.accelerators} x {found.accelerator_model}"


def _price(cluster: Cluster, queue: Queue, resource: ComputeResource) -> Price | None:
    """None for several types: it is not known in advance which one a node will have."""
    if len(resource.instance_types) != 1:
        return None
    return find_price(resource.instance_types[0], cluster.region or "", queue.capacity_type)


def head_node_price(instance_type: str, region: str | None) -> Price | None:
    """Head nodes are bought on demand."""
    return find_price(instance_type, region or "", "ONDEMAND")


def storage_rows(data: dict[str, Any]) -> list[StorageRow]:
    """One row per entry of SharedStorage whose folder is known."""
    return [
        _storage_row(entry)
        for entry in items(at(data, "SharedStorage"))
        if text(at(entry, "MountDir"))
    ]


def _storage_row(entry: Any) -> StorageRow:
    kind = text(at(entry, "StorageType")) or ""
    settings = at(entry, f"{kind}Settings")
    size = number(at(settings, "StorageCapacity")) or number(at(settings, "Size"))
    per_tib = number(at(settings, "PerUnitStorageThroughput"))
    existing = text(at(settings, "FileSystemId")) or text(at(settings, "VolumeId"))
    deployment = text(at(settings, "DeploymentType"))
    return StorageRow(
        "/" + (text(at(entry, "MountDir")) or "").strip("/"),
        " ".join(part for part in (kind, deployment, existing) if part),
        f"{size} GiB" if size else "",
        f"{per_tib * size // 1024} MB/s" if per_tib and size else "",
    )
