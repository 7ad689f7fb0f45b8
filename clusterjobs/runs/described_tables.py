"""Described Slurm clusters as tables for a person and as data for a script."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.catalog import Price
from clusterjobs.clusters.described.description import NodeType, Partition
from clusterjobs.clusters.described.read import unknown_keys
from clusterjobs.console import printable, table
from clusterjobs.runs.clusters import Described
from clusterjobs.sites.folders import read_sites, site_files
from clusterjobs.sites.prices import Nodes as Billed
from clusterjobs.sites.prices import known_price


class Nodes(NamedTuple):
    """The nodes of one type in a partition."""

    partition: str
    type_name: str
    nodes: int
    node_type: NodeType
    price: Price | None

    @property
    def usd_per_hour(self) -> float | None:
        """The price of all nodes together."""
        return self.price and self.price.usd_per_hour * self.nodes


def list_rows(cluster: Described, nodes: Sequence[Nodes]) -> list[list[str]]:
    """The cells of `clusters list`, from the queue to the price."""
    shared = ", ".join(cluster.description.shared or {}) or "?"
    return [
        [
            one.partition,
            f"{one.nodes} x {one.type_name}",
            _gpus(one.node_type),
            _fabric(one.node_type),
            shared,
            shown_price(one.usd_per_hour),
        ]
        for one in nodes
    ]


def nodes_of(cluster: Described) -> list[Nodes]:
    """The nodes of each type in each partition."""
    found, sites = cluster.description, read_sites(site_files(pathlib.Path(cluster.file)))
    return [
        Nodes(
            name,
            kind,
            count,
            found.of_type(kind),
            known_price(Billed(1, kind, "", cluster.name, ""), sites),
        )
        for name, partition in found.partitions.items()
        for kind, count in partition.nodes.items()
    ]


def _gpus(one: NodeType) -> str:
    if not one.gpus:
        return shown_number(one.gpus)
    memory = f" {one.gpu_memory:g} GB" if one.gpu_memory else ""
    return f"{one.gpus} x {one.gpu_model or one.gpu_type or 'GPU'}{memory}"


def _fabric(one: NodeType) -> str:
    count = f"{one.fabric_interfaces} x " if one.fabric_interfaces else ""
    return f"{count}{one.fabric}" if one.fabric else "?"


def shown_number(value: float | None) -> str:
    """A number: `-` for none, `?` if it is unknown."""
    return "?" if value is None else f"{value:g}" if value else "-"


def shown_price(usd: float | None) -> str:
    """USD; `-` if the price is unknown."""
    return "-" if usd is None else f"{usd:,.2f}"


def show_text(cluster: Described) -> str:
    """Partitions, node types, shared folders, and what the site adds to jobs."""
    found = cluster.description
    facts = [
        ["description", printable(cluster.file)],
        ["Slurm", found.slurm_version or "?"],
        ["default partition", found.default_partition or "?"],
    ]
    sections = [
        table(facts),
        "partitions\n" + table([*_partition_table(cluster)]),
        "node types\n" + table([*_type_table(cluster)]),
        _shared_text(cluster),
        _site_text(cluster),
        _unknown_text(cluster),
    ]
    return "\n\n".join(section for section in sections if section)


def _partition_table(cluster: Described) -> Iterator[list[str]]:
    yield ["  partition", "nodes", "nodes of one job", "time limit", "whole nodes"]
    for name, one in cluster.description.partitions.items():
        nodes = ", ".join(f"{count} x {kind}" for kind, count in one.nodes.items())
        exclusive = "always" if one.exclusive else "on request"
        yield [f"  {name}", nodes, str(one.max_nodes or "all"), one.max_time or "?", exclusive]


def _type_table(cluster: Described) -> Iterator[list[str]]:
    yield ["  type", "CPUs", "GiB", "GPUs", "fabric", "Gbps", "scratch", "disk GB", "features"]
    for name in cluster.description.node_types:
        one = cluster.description.of_type(name)
        yield [
            f"  {name}",
            shown_number(one.cpus),
            shown_number(one.memory_mib and one.memory_mib // 1024),
            _gpus(one),
            _fabric(one),
            shown_number(one.network_gbps),
            one.scratch or "?",
            shown_number(one.local_disk_gb),
            ",".join(one.features) or "-",
        ]


def _shared_text(cluster: Described) -> str:
    shared = cluster.description.shared
    if shared is None:
        return "shared folders: unknown"
    if not shared:
        return "no shared folders"
    return "shared folders\n" + table([[f"  {path}", kind] for path, kind in shared.items()])


_OF_THE_SITE = ("slurm_commands", "container_program", "master_addr_suffix", "request_gpus")


def _site_text(cluster: Described) -> str:
    """The site's own settings; those of a node type have its name in brackets."""
    found = cluster.description
    values = {key: getattr(found, key) for key in _OF_THE_SITE}
    rows = [[f"  {key}", printable(str(value))] for key, value in values.items() if value]
    rows += [["  write_partition", "false"]] if not found.write_partition else []
    rows += [["  auto_resume", "true"]] if found.auto_resume else []
    for key in ("accounts", "qos"):
        rows += [[f"  {key}", ", ".join(getattr(found, key))]] if getattr(found, key) else []
    for level, mark in ((found, ""), *((one, f" ({n})") for n, one in found.node_types.items())):
        for name, variable in level.env.items():
            value = printable(f"{name}={variable.value}")
            rows.append([f"  env{mark}", f"{value}  # {printable(variable.reason)}"])
        rows += [[f"  source{mark}", printable(file)] for file in level.source]
        rows += [[f"  setup{mark}", printable(line)] for line in level.setup]
    return "of the site\n" + table(rows) if rows else ""


def _unknown_text(cluster: Described) -> str:
    found = cluster.description
    rows = [
        [f"  {key} of {name}", f"decides {what}"]
        for name in found.node_types
        for key, what in unknown_keys(found.of_type(name))
    ]
    return "unknown: add them to the description\n" + table(rows) if rows else ""


def cluster_data(cluster: Described) -> dict[str, Any]:
    """The cluster as data. Names and structure are stable across versions."""
    found = cluster.description
    return {
        "kind": "slurm",
        "name": cluster.name,
        "file": cluster.file,
        "region": None,
        "os": None,
        "head_node": None,
        "slurm_version": found.slurm_version,
        "nodes": [_nodes_data(one, found.partitions[one.partition]) for one in nodes_of(cluster)],
        "storage": [
            {"directory": path, "kind": kind, "size": "", "speed": ""}
            for path, kind in (found.shared or {}).items()
        ],
        "description": found.model_dump(mode="json", exclude_unset=True),
    }


def _nodes_data(one: Nodes, partition: Partition) -> dict[str, Any]:
    """The nodes, with the keys that nodes of a ParallelCluster config have."""
    found = one.node_type
    return {
        "queue": one.partition,
        "name": one.type_name,
        "instance_types": [one.type_name],
        "min_nodes": one.nodes,
        "max_nodes": one.nodes,
        "max_nodes_of_a_job": partition.max_nodes,
        "gpus": found.gpus,
        "gpu": _gpus(found).partition(" x ")[2],
        "accelerator": "",
        "fabric": found.fabric,
        "efa_interfaces": (found.fabric_interfaces if found.fabric == "efa" else 0)
        if found.fabric
        else None,
        "network_gbps": found.network_gbps,
        "memory_gib": found.memory_mib and found.memory_mib // 1024,
        "vcpus": found.cpus,
        "nvme_gb": found.local_disk_gb,
        "capacity": None,
        "price": one.price and one.price._asdict(),
        "usd_per_hour_all": one.usd_per_hour,
    }
