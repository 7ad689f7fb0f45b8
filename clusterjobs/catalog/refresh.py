"""Writes `instance_types.json` from the output of EC2's DescribeInstanceTypes.

For admins, when AWS has new instance types:

    aws ec2 describe-instance-types --output json > types.json
    python -m clusterjobs.catalog.refresh types.json --source "us-east-1, 2026-11-20"

It also reads the dump in the moto package (`moto/ec2/resources/instance_types.json.gz`). Entries
under `by_hand` are kept, except for types that are in the new output.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from clusterjobs.catalog.instances import DATA_FILE, InstanceType

COLUMNS = InstanceType._fields[1:]

# Families for head nodes and clusters without EFA. Types with a GPU or EFA are always included.
_FAMILIES = re.compile(r"(t3|m5|m6i|m7i|c5|c5n|c6i|c7i|r5|r6i|hpc\w+)\.")

# aws-ofi-nccl v1.17 requires GPUDirect on these NVIDIA types only (`gdr_required` in
# src/platform-aws.cpp, which lists p3dn, p5.4xlarge and g5.48xlarge as not having it).
# DescribeInstanceTypes does not contain it. AWS announces it for g7 and g7e too, but the plugin
# does not rely on it there, so neither does the catalogue.
_GPUDIRECT = re.compile(r"(p4d\.|p4de\.|p5\.48|p5e\.|p5en\.|p[6-9])")


def wanted(entry: dict[str, Any]) -> bool:
    """Whether this entry of DescribeInstanceTypes belongs in the catalogue."""
    has_efa = bool(entry["NetworkInfo"].get("EfaSupported"))
    return has_efa or bool(_nvidia(entry)) or bool(_FAMILIES.match(entry["InstanceType"]))


def read_entry(entry: dict[str, Any]) -> InstanceType:
    """The properties in one entry of DescribeInstanceTypes."""
    name, network, gpus = entry["InstanceType"], entry["NetworkInfo"], _nvidia(entry)
    return InstanceType(
        name=name,
        vcpus=entry["VCpuInfo"]["DefaultVCpus"],
        cores=entry["VCpuInfo"]["DefaultCores"],
        memory_mib=entry["MemoryInfo"]["SizeInMiB"],
        gpus=sum(gpu["Count"] for gpu in gpus),
        gpu_model=gpus[0]["Name"] if gpus else "",
        gpu_memory_mib=gpus[0]["MemoryInfo"]["SizeInMiB"] if gpus else 0,
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        network_cards=len(network["NetworkCards"]),
        network_gbps=_gbps(network),
        nvme_gb=entry.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        gpudirect_rdma=bool(gpus) and bool(_GPUDIRECT.match(name)),
        architecture=entry["ProcessorInfo"]["SupportedArchitectures"][-1],
    )


def write_catalogue(entries: Iterable[dict[str, Any]], source: str, path: pathlib.Path) -> int:
    """Write the wanted entries to `path`, keep its `by_hand` entries, return the number written."""
    types = [read_entry(entry) for entry in entries if wanted(entry)]
    rows = {found.name: _row(found) for found in sorted(types, key=lambda found: found.name)}
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    by_hand = {k: v for k, v in before.get("by_hand", {}).items() if k not in rows}
    path.write_text(_dump(source, rows, by_hand), encoding="utf-8")
    return len(rows)


def load_entries(path: pathlib.Path) -> list[dict[str, Any]]:
    """The entries in output of the AWS CLI, or in moto's dump (a mapping by name, gzipped)."""
    data = path.read_bytes()
    output = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return list(output.get("InstanceTypes", output.values()))


def _nvidia(entry: dict[str, Any]) -> list[dict[str, Any]]:
    gpus: list[dict[str, Any]] = entry.get("GpuInfo", {}).get("Gpus", [])
    return [gpu for gpu in gpus if gpu.get("Manufacturer") == "NVIDIA"]


def _gbps(network: dict[str, Any]) -> float:
    """The stated total if it is a number: the sum of the cards can exceed a link they share."""
    text = network["NetworkPerformance"]
    if found := re.fullmatch(r"(?:Up to )?(?:(\d+)x )?([\d.]+) Gigabit", text):
        return int(found[1] or 1) * float(found[2])
    return float(sum(card.get("PeakBandwidthInGbps", 0) for card in network["NetworkCards"]))


def _row(found: InstanceType) -> list[Any]:
    return [getattr(found, column) for column in COLUMNS]


def _dump(source: str, rows: dict[str, list[Any]], by_hand: dict[str, Any]) -> str:
    """One line per entry, so that a change by AWS is a readable diff."""
    lines = [
        "{",
        f' "source": {json.dumps(source)},',
        f' "columns": {json.dumps(COLUMNS)},',
        ' "types": {',
        _entries(rows),
        " },",
        ' "by_hand": {',
        _entries(by_hand),
        " }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _entries(entries: dict[str, Any]) -> str:
    return ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m clusterjobs.catalog.refresh")
    parser.add_argument("input", type=pathlib.Path, help="output of DescribeInstanceTypes, as JSON")
    parser.add_argument("--source", required=True, help="source of the data, with its date")
    parser.add_argument("--output", type=pathlib.Path, default=DATA_FILE)
    given = parser.parse_args(arguments)
    count = write_catalogue(load_entries(given.input), given.source, given.output)
    sys.stdout.write(f"{count} instance types in {given.output}\n")


if __name__ == "__main__":
    main()
