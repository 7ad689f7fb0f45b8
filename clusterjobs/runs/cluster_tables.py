"""Clusters as tables for a person and as data for a script.

Tables of described Slurm clusters are in `described_tables.py`.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from clusterjobs.catalog import InstanceType, Price, all_prices, find_instance_type, find_price
from clusterjobs.clusters.parallelcluster.config import Cluster, ComputeResource, Queue
from clusterjobs.clusters.parallelcluster.detect import at, items, number, text
from clusterjobs.clusters.parallelcluster.facts import least, slurm_partitions
from clusterjobs.console import table
from clusterjobs.errors import InputError
from clusterjobs.runs import described_tables
from clusterjobs.runs.clusters import AnyCluster, Config, Described, NamedCluster
from clusterjobs.runs.described_tables import shown_number, shown_price
from clusterjobs.sites.folders import read_sites, site_files
from clusterjobs.sites.prices import Nodes, known_price

# ------------------------------------------------------------------ rows
# What a ParallelCluster has and what it costs.


Sites = Sequence[tuple[str, str]]  # (file, text) of each site.yaml


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
class StorageRow:
    """One shared folder. `size` and `speed` as text, "" if they are not given."""

    directory: str
    kind: str
    size: str
    speed: str


def node_rows(cluster: Cluster) -> list[NodesRow]:
    """One row per compute resource, in the order of the config."""
    sites = read_sites(site_files(pathlib.Path(cluster.file)))
    return [
        _node_row(cluster, queue, resource, sites)
        for queue in cluster.queues
        for resource in queue.compute_resources
    ]


def _node_row(cluster: Cluster, queue: Queue, resource: ComputeResource, sites: Sites) -> NodesRow:
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
        price=_price(cluster, queue, resource, sites),
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


def _price(cluster: Cluster, queue: Queue, resource: ComputeResource, sites: Sites) -> Price | None:
    """None for several types: it is not known in advance which one a node will have."""
    if len(resource.instance_types) != 1:
        return None
    (kind,), region = resource.instance_types, cluster.region or ""
    return known_price(Nodes(1, kind, region, cluster.name, queue.capacity_type), sites)


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


# ------------------------------------------------------------------ tables


def list_text(clusters: Sequence[NamedCluster]) -> str:
    """One row per compute resource of each cluster."""
    head = ["name", "queue", "nodes", "GPUs of a node", "fabric", "shared", "USD/hour, all nodes"]
    rows, prices = [[*head, "from"]], list[Price | None]()
    for one in clusters:
        cells, found = _list_rows(one.config)
        rows += [[one.name, *each, one.shown_origin] for each in cells]
        prices += found
    return f"{table(rows)}\n\n{_about_prices(prices)}".rstrip()


def _list_rows(config: AnyCluster) -> tuple[list[list[str]], list[Price | None]]:
    """The rows of a cluster, and the prices in them; None is one that is missing."""
    if isinstance(config, Described):
        found = described_tables.nodes_of(config)
        known = [one.price for one in found if one.price]  # the catalogue has none of them
        return described_tables.list_rows(config, found), [*known]
    mounts = ", ".join(mount.directory for mount in config.cluster.mounts)
    rows = node_rows(config.cluster)
    return [_list_row(row, mounts) for row in rows], [row.price for row in rows]


def _list_row(row: NodesRow, mounts: str) -> list[str]:
    nodes = f"{_nodes(row)} x {', '.join(row.instance_types) or '?'}"
    return [
        row.queue,
        nodes,
        _gpus(row),
        f"{row.efa_interfaces} x efa" if row.efa_interfaces else shown_number(row.efa_interfaces),
        mounts,
        shown_price(row.usd_per_hour),
    ]


def _nodes(row: NodesRow) -> str:
    most = "?" if row.max_nodes is None else str(row.max_nodes)
    return most if str(row.min_nodes) in ("0", most) else f"{row.min_nodes}-{most}"


def _gpus(row: NodesRow) -> str:
    return f"{row.gpus} x {row.gpu}" if row.gpus else row.accelerator or shown_number(row.gpus)


def _about_prices(shown: Iterable[Price | None]) -> str:
    """The sources of the prices; for a missing one, the prices that are known."""
    found = {*shown}
    prices = sorted(filter(None, found))
    about = [*dict.fromkeys(map(_about_price, prices))]
    if None in found:
        known = sorted({(one.region, one.purchase) for one in all_prices()})
        places = ", ".join(f"{region} {_PURCHASES[purchase]}" for region, purchase in known)
        about.append(f"no price (-): the catalogue has prices of some types in {places}")
    if prices:
        about.append("prices move, and reservations and discounts differ")
    return "\n".join(about)


def _about_price(price: Price) -> str:
    how = _PURCHASES.get(price.purchase, "")
    where = ", ".join(filter(None, (price.region and f"in {price.region}", how)))
    return f"price of {price.instance_type} {where}".rstrip() + f": {price.source}, {price.date}"


_PURCHASES = {"ONDEMAND": "on demand", "SPOT": "spot", "CAPACITY_BLOCK": "in a Capacity Block"}


# ------------------------------------------------------------------ one cluster


def show_text(config: AnyCluster) -> str:
    """Head node, queues, storage, and their names in Slurm."""
    if isinstance(config, Described):
        return described_tables.show_text(config)
    cluster, rows = config.cluster, node_rows(config.cluster)
    head = text(at(config.data, "HeadNode", "InstanceType")) or "?"
    price = find_price(head, cluster.region or "", "ONDEMAND")
    facts = [
        ["config", cluster.file],
        ["region", cluster.region or "unknown"],
        ["image", " ".join(part for part in (cluster.os, cluster.custom_ami) if part) or "?"],
        ["head node", f"{head}, {price.usd_per_hour:.2f} USD/hour" if price else head],
    ]
    sections = [table(facts), "nodes\n" + table(_node_table(rows)), _storage_text(config)]
    sections += [_slurm_text(config), _about_prices(row.price for row in rows)]
    return "\n\n".join(section for section in sections if section)


def _node_table(rows: Sequence[NodesRow]) -> list[list[str]]:
    head = ["  queue", "nodes", "type", "capacity", "GPUs", "EFA", "Gbps", "CPUs", "GiB", "NVMe GB"]
    return [
        [*head, "USD/hour of one"],
        *(
            [
                f"  {row.queue}",
                _nodes(row),
                ", ".join(row.instance_types) or "?",
                row.capacity,
                _gpus(row),
                shown_number(row.efa_interfaces),
                shown_number(row.network_gbps),
                shown_number(row.vcpus),
                shown_number(row.memory_gib),
                shown_number(row.nvme_gb),
                shown_price(row.price and row.price.usd_per_hour),
            ]
            for row in rows
        ),
    ]


def _storage_text(config: Config) -> str:
    rows = storage_rows(config.data)
    if not rows:
        return "no shared storage beside /home"
    cells = [[f"  {row.directory}", row.kind, row.size or "-", row.speed] for row in rows]
    return "shared storage, beside the head node's /home\n" + table(cells)


def _slurm_text(config: Config) -> str:
    """Node names and features; empty if the config leaves something open."""
    try:
        partitions = slurm_partitions(config.cluster, config.document)
    except InputError:
        return ""
    groups = [(partition, group) for partition in partitions for group in partition.groups]
    cells = [[f"  {p.name}", g.hostlist, g.gres, ",".join(g.features)] for p, g in groups]
    return "in Slurm\n" + table(cells)


def cluster_data(config: AnyCluster) -> dict[str, Any]:
    """The cluster as data. Names and structure are stable across versions."""
    if isinstance(config, Described):
        return described_tables.cluster_data(config)
    cluster = config.cluster
    return {
        "kind": "parallelcluster",
        "name": cluster.name,
        "file": cluster.file,
        "region": cluster.region,
        "os": cluster.os,
        "head_node": text(at(config.data, "HeadNode", "InstanceType")),
        "nodes": [
            {
                **dataclasses.asdict(row),
                "price": row.price._asdict() if row.price else None,
                "usd_per_hour_all": row.usd_per_hour,
            }
            for row in node_rows(cluster)
        ],
        "storage": [dataclasses.asdict(row) for row in storage_rows(config.data)],
    }
