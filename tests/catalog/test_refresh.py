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


def test_a_network_without_figures_is_unknown() -> None:
    network = {"NetworkPerformance": "Moderate", "EfaSupported": False, "NetworkCards": [{}]}
    assert refresh.read_entry({**ENTRY, "NetworkInfo": network}).network_gbps is None


def test_amd_gpus_are_accelerators_and_no_gpus() -> None:
    found = refresh.read_entry({**ENTRY, "GpuInfo": AMD})
    assert (found.gpus, found.gpu_model, found.gpudirect_rdma) == (0, "", False)
    assert (found.accelerators, found.accelerator_model) == (1, "Radeon")


def test_a_type_without_gpu_and_efa_is_written_too(tmp_path: pathlib.Path) -> None:
    output = tmp_path / "types.json"
    plain = {key: value for key, value in ENTRY.items() if key != "GpuInfo"}
    plain = {**plain, "InstanceType": "t9.micro", "NetworkInfo": NO_EFA}
    assert refresh.write_catalogue([plain], "here", "2026-11-20", output) == 1
    assert list(json.loads(output.read_text())["types"]) == ["t9.micro"]


@pytest.mark.parametrize("form", ["aws", "moto"])
def test_the_command_writes_the_catalogue_and_keeps_what_the_output_lacks(
    tmp_path: pathlib.Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "types.json"
    others = {name: {"source": "s", "row": [1, 2]} for name in ("p3.16xlarge", "p9.48xlarge")}
    columns = ["cores", "vcpus"]  # of an older version, in another order
    before = {"source": "then", "date": "2025-01-01", "columns": columns, "others": others}
    output.write_text(json.dumps({**before, "types": {"g3.8xlarge": [16, 32]}}))
    if form == "aws":
        answer = tmp_path / "answer.json"
        answer.write_text(json.dumps({"InstanceTypes": [ENTRY]}))
    else:
        answer = tmp_path / "answer.json.gz"
        answer.write_bytes(gzip.compress(json.dumps({"p9.48xlarge": ENTRY}).encode()))
    refresh.main([str(answer), "--source", "here", "--date", "2026-11-20", "--output", str(output)])
    written = json.loads(output.read_text())
    assert (written["source"], written["date"]) == ("here", "2026-11-20")
    assert list(written["types"]) == ["p9.48xlarge"]
    assert list(written["others"]) == ["g3.8xlarge", "p3.16xlarge"]
    assert written["others"]["g3.8xlarge"]["source"] == "then, 2025-01-01"
    assert written["others"]["p3.16xlarge"]["source"] == "s"
    kept = dict(zip(written["columns"], written["others"]["g3.8xlarge"]["row"], strict=True))
    assert (kept["vcpus"], kept["cores"], kept["network_gbps"]) == (32, 16, None)
    assert capsys.readouterr().out == f"1 instance types in {output}\n"
