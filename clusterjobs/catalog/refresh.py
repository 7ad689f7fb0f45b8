"""Writes `instance_types.json` from the output of EC2's DescribeInstanceTypes.

For admins, when AWS has new instance types:

    aws ec2 describe-instance-types --output json > types.json
    python -m clusterjobs.catalog.refresh types.json --source "EC2, us-east-1" --date 2026-11-20

It also reads the dump in the moto package (`moto/ec2/resources/instance_types.json.gz`). One region
never offers every type, and AWS retires some: a type that the new output lacks is kept under
`others`, with the source that had it.
"""

import argparse
import gzip
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from clusterjobs.catalog import DATA_FILE, InstanceType

COLUMNS = InstanceType._fields[1:]

# aws-ofi-nccl v1.17 requires GPUDirect on these NVIDIA types only (`gdr_required` in
# src/platform-aws.cpp, which lists p3dn, p5.4xlarge and g5.48xlarge as not having it).
# DescribeInstanceTypes does not contain it. AWS announces it for g7 and g7e too, but the plugin
# does not rely on it there, so neither does the catalogue.
_GPUDIRECT = re.compile(r"(p4d\.|p4de\.|p5\.48|p5e\.|p5en\.|p[6-9])")

# DescribeInstanceTypes names no accelerators for it (aws.amazon.com/ec2/instance-types/trn2).
_TRAINIUM2 = {"Name": "Trainium2", "Count": 16, "CoreInfo": {"Count": 8}}
_UNDESCRIBED = {"trn2u.48xlarge": [_TRAINIUM2]}


def read_entry(entry: dict[str, Any]) -> InstanceType:
    """The properties in one entry of DescribeInstanceTypes."""
    name, network, gpus = entry["InstanceType"], entry["NetworkInfo"], _nvidia(entry)
    others = _accelerators(entry)
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
        accelerators=sum(one["Count"] for one in others),
        accelerator_model=others[0]["Name"] if others else "",
        accelerator_cores=sum(
            one["Count"] * one.get("CoreInfo", {}).get("Count", 1) for one in others
        ),
    )


def write_catalogue(
    entries: Iterable[dict[str, Any]], source: str, date: str, path: pathlib.Path
) -> int:
    """Write the entries to `path`, keep the types that they lack, return the number written."""
    types = [read_entry(entry) for entry in entries]
    rows = {
        found.name: [getattr(found, column) for column in COLUMNS]
        for found in sorted(types, key=lambda found: found.name)
    }
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    others = {k: v for k, v in _kept(before).items() if k not in rows}
    path.write_text(_dump(source, date, rows, dict(sorted(others.items()))), encoding="utf-8")
    return len(rows)


def _kept(before: dict[str, Any]) -> dict[str, Any]:
    """Every type of the file so far, with its source, in today's columns."""
    source = f"{before.get('source', 'unknown')}, {before.get('date', 'undated')}"
    listed = {name: {"source": source, "row": row} for name, row in before.get("types", {}).items()}
    columns = before.get("columns", COLUMNS)
    return {
        name: {**entry, "row": _in_todays_columns(columns, entry["row"])}
        for name, entry in {**listed, **before.get("others", {})}.items()
    }


def _in_todays_columns(columns: Sequence[str], row: Sequence[Any]) -> list[Any]:
    known = dict(zip(columns, row, strict=True))
    return [known.get(column, InstanceType._field_defaults.get(column)) for column in COLUMNS]


def load_entries(path: pathlib.Path) -> list[dict[str, Any]]:
    """The entries in output of the AWS CLI, or in moto's dump (a mapping by name, gzipped)."""
    data = path.read_bytes()
    output = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return list(output.get("InstanceTypes", output.values()))


def _nvidia(entry: dict[str, Any]) -> list[dict[str, Any]]:
    gpus: list[dict[str, Any]] = entry.get("GpuInfo", {}).get("Gpus", [])
    return [gpu for gpu in gpus if gpu.get("Manufacturer") == "NVIDIA"]


def _accelerators(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """What computes like a GPU, and is none of NVIDIA's: ParallelCluster gives Slurm no gres."""
    neuron = entry.get("NeuronInfo", {}).get("NeuronDevices", [])
    inference = entry.get("InferenceAcceleratorInfo", {}).get("Accelerators", [])
    gpus = entry.get("GpuInfo", {}).get("Gpus", [])
    others = [gpu for gpu in gpus if gpu.get("Manufacturer") != "NVIDIA"]
    return _UNDESCRIBED.get(entry["InstanceType"]) or neuron or inference or others


def _gbps(network: dict[str, Any]) -> float | None:
    """The stated total if it is a number: the sum of the cards can exceed a link they share.

    None for the oldest types, of which EC2 says only "Moderate".
    """
    text = network["NetworkPerformance"]
    if found := re.fullmatch(r"(?:Up to )?(?:(\d+)x )?([\d.]+) Gigabit", text):
        return int(found[1] or 1) * float(found[2])
    peaks = [card.get("PeakBandwidthInGbps") for card in network["NetworkCards"]]
    return None if None in peaks else float(sum(peaks))


def _dump(
    source: str, date: str, rows: dict[str, list[Any]], others: dict[str, dict[str, Any]]
) -> str:
    """One line per entry, so that a change by AWS is a readable diff."""
    lines = [
        "{",
        f' "source": {json.dumps(source)},',
        f' "date": {json.dumps(date)},',
        f' "columns": {json.dumps(COLUMNS)},',
        ' "types": {',
        _entries(rows),
        " },",
        ' "others": {',
        _entries(others),
        " }",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _entries(entries: dict[str, Any]) -> str:
    return ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m clusterjobs.catalog.refresh")
    parser.add_argument("input", type=pathlib.Path, help="output of DescribeInstanceTypes, as JSON")
    parser.add_argument("--source", required=True, help="source of the data")
    parser.add_argument("--date", required=True, help="its day, as 2026-11-20")
    parser.add_argument("--output", type=pathlib.Path, default=DATA_FILE)
    given = parser.parse_args(arguments)
    count = write_catalogue(load_entries(given.input), given.source, given.date, given.output)
    sys.stdout.write(f"{count} instance types in {given.output}\n")


if __name__ == "__main__":
    main()
