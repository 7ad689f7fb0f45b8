from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import pytest

from clusterjobs.catalog import refresh

ENTRY: dict[str, Any] = {
    "InstanceType": "p9.48xlarge",
    "VCpuInfo": {"DefaultVCpus": 192, "DefaultCores": 96, "DefaultThreadsPerCore": 2},
    "MemoryInfo": {"SizeInMiB": 2097152},
    "GpuInfo": {
        "Gpus": [
            {
                "Name": "Z100",
                "Manufacturer": "NVIDIA",
                "Count": 8,
                "MemoryInfo": {"SizeInMiB": 300000},
            }
        ]
    },
    "NetworkInfo": {
        "NetworkPerformance": "6400 Gigabit",
        "EfaSupported": True,
        "EfaInfo": {"MaximumEfaInterfaces": 2},
        "NetworkCards": [{"PeakBandwidthInGbps": 50.0}, {"PeakBandwidthInGbps": 3.5}],
    },
    "InstanceStorageInfo": {"TotalSizeInGB": 30400},
    "ProcessorInfo": {"SupportedArchitectures": ["i386", "x86_64"]},
}
AMD = {"Gpus": [{"Name": "Radeon", "Manufacturer": "AMD", "Count": 1}]}
NO_EFA = {**ENTRY["NetworkInfo"], "EfaSupported": False}


def test_reads_an_entry() -> None:
    found = refresh.read_entry(ENTRY)
    assert (found.gpus, found.gpu_model, found.gpu_memory_mib) == (8, "Z100", 300000)
    assert (found.efa_interfaces, found.network_cards, found.network_gbps) == (2, 2, 6400.0)
    assert (found.nvme_gb, found.architecture, found.gpudirect_rdma) == (30400, "x86_64", True)


@pytest.mark.parametrize(
    ("text", "gbps"),
    [("Up to 12.5 Gigabit", 12.5), ("4x 100 Gigabit", 400.0), ("Moderate", 53.5)],
)
def test_reads_the_network_of_old_and_new_types(text: str, gbps: float) -> None:
    network = {**ENTRY["NetworkInfo"], "NetworkPerformance": text}
    assert refresh.read_entry({**ENTRY, "NetworkInfo": network}).network_gbps == gbps


def test_the_catalogue_includes_gpus_efa_and_common_head_nodes() -> None:
    plain = {**ENTRY, "GpuInfo": AMD, "NetworkInfo": NO_EFA}
    assert refresh.wanted(ENTRY)
    assert refresh.wanted({**plain, "NetworkInfo": ENTRY["NetworkInfo"]})
    assert refresh.wanted({**plain, "GpuInfo": ENTRY["GpuInfo"]})
    assert refresh.wanted({**plain, "InstanceType": "t3.micro"})
    assert not refresh.wanted(plain)


def test_amd_gpus_are_not_counted() -> None:
    found = refresh.read_entry({**ENTRY, "GpuInfo": AMD})
    assert (found.gpus, found.gpu_model, found.gpudirect_rdma) == (0, "", False)


@pytest.mark.parametrize("form", ["aws", "moto"])
def test_the_command_writes_the_catalogue_and_keeps_entries_by_hand(
    tmp_path: pathlib.Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "types.json"
    by_hand = {name: {"source": "s", "row": []} for name in ("p3.16xlarge", "p9.48xlarge")}
    output.write_text(json.dumps({"by_hand": by_hand}))
    if form == "aws":
        answer = tmp_path / "answer.json"
        answer.write_text(json.dumps({"InstanceTypes": [ENTRY]}))
    else:
        answer = tmp_path / "answer.json.gz"
        answer.write_bytes(gzip.compress(json.dumps({"p9.48xlarge": ENTRY}).encode()))
    refresh.main([str(answer), "--source", "here, today", "--output", str(output)])
    written = json.loads(output.read_text())
    assert written["source"] == "here, today"
    assert list(written["types"]) == ["p9.48xlarge"]
    assert list(written["by_hand"]) == ["p3.16xlarge"]
    assert capsys.readouterr().out == f"1 instance types in {output}\n"
