"""Clusters as tables for a person and as data for a script.

Tables of described Slurm clusters are in `described_tables.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from clusterjobs.catalog import Price, all_prices
from clusterjobs.clusters.parallelcluster.detect import at, text
from clusterjobs.clusters.parallelcluster.facts import slurm_partitions
from clusterjobs.clusters.parallelcluster.overview import (
    NodesRow,
    head_node_price,
    node_rows,
    storage_rows,
)
from clusterjobs.console import table
from clusterjobs.errors import InputError
from clusterjobs.runs import described_tables
from clusterjobs.runs.clusters import AnyCluster, Config, Described, NamedCluster


def list_text(clusters: Sequence[NamedCluster]) -> str:
    """One row per compute resource of each cluster."""
    head = ["name", "queue", "nodes", "GPUs of a node", "fabric", "shared", "USD/hour, all nodes"]
    rows, all_nodes = [[*head, "from"]], list[NodesRow]()
    for one in clusters:
        nodes = [] if isinstance(one.config, Described) else node_rows(one.config.cluster)
        rows += [[one.name, *cells, one.shown_origin] for cells in _list_rows(one.config, nodes)]
        all_nodes += nodes
    return f"{table(rows)}\n\n{_about_prices(all_nodes)}".rstrip()


def _list_rows(config: AnyCluster, nodes: Sequence[NodesRow]) -> list[list[str]]:
    if isinstance(config, Described):
        return described_tables.list_rows(config)
    mounts = ", ".join(mount.directory for mount in config.cluster.mounts)
    return [_list_row(row, mounts) for row in nodes]


def _list_row(row: NodesRow, mounts: str) -> list[str]:
    nodes = f"{_nodes(row)} x {', '.join(row.instance_types) or '?'}"
    price = "-" if row.usd_per_hour is None else f"{row.usd_per_hour:,.2f}"
    return [row.queue, nodes, _gpus(row), _efa(row), mounts, price]


def _nodes(row: NodesRow) -> str:
    most = "?" if row.max_nodes is None else str(row.max_nodes)
    return most if str(row.min_nodes) in ("0", most) else f"{row.min_nodes}-{most}"


def _gpus(row: NodesRow) -> str:
    return f"{row.gpus} x {row.gpu}" if row.gpus else row.accelerator or _number(row.gpus)


def _efa(row: NodesRow) -> str:
    return f"{row.efa_interfaces} x efa" if row.efa_interfaces else _number(row.efa_interfaces)


def _number(value: float | None) -> str:
    """A number: `-` for none, `?` if it is unknown."""
    return "?" if value is None else f"{value:g}" if value else "-"


def _about_prices(rows: Iterable[NodesRow]) -> str:
    """The sources of the prices; for a missing one, the prices that are known."""
    shown = list(rows)
    prices = sorted({row.price for row in shown if row.price})
    about = [_about_price(price) for price in prices]
    if any(row.price is None for row in shown):
        known = sorted({(one.region, one.purchase) for one in all_prices()})
        places = ", ".join(f"{region} {_PURCHASES[purchase]}" for region, purchase in known)
        about.append(f"no price (-): the catalogue has prices of some types in {places}")
    if prices:
        about.append("prices move, and reservations and discounts differ")
    return "\n".join(about)


def _about_price(price: Price) -> str:
    where = f"{price.region}, {_PURCHASES[price.purchase]}"
    return f"price of {price.instance_type} in {where}: {price.source}, {price.date}"


_PURCHASES = {"ONDEMAND": "on demand", "SPOT": "spot", "CAPACITY_BLOCK": "in a Capacity Block"}


# ------------------------------------------------------------------ one cluster


def show_text(config: AnyCluster) -> str:
    """Head node, queues, storage, and their names in Slurm."""
    if isinstance(config, Described):
        return described_tables.show_text(config)
    cluster, rows = config.cluster, node_rows(config.cluster)
    head = text(at(config.data, "HeadNode", "InstanceType")) or "?"
    price = head_node_price(head, cluster.region)
    facts = [
        ["config", cluster.file],
        ["region", cluster.region or "unknown"],
        ["image", " ".join(part for part in (cluster.os, cluster.custom_ami) if part) or "?"],
        ["head node", f"{head}, {price.usd_per_hour:.2f} USD/hour" if price else head],
    ]
    sections = [table(facts), "nodes\n" + table(_node_table(rows)), _storage_text(config)]
    sections += [_slurm_text(config), _about_prices(rows)]
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
                _number(row.efa_interfaces),
                _number(row.network_gbps),
                _number(row.vcpus),
                _number(row.memory_gib),
                _number(row.nvme_gb),
                f"{row.price.usd_per_hour:,.2f}" if row.price else "-",
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
    """The same as data. Names and structure are stable across versions."""
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
