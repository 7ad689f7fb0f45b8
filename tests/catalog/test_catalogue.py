from __future__ import annotations

import gzip
import json
import pathlib
import re

import pytest

from clusterjobs import catalog
from clusterjobs.catalog import (
    InstanceType,
    all_prices,
    catalogue_date,
    find_gpu_model,
    find_instance_type,
    find_price,
    gres_type,
    instance_type_names,
)


def known(name: str) -> InstanceType:
    found = find_instance_type(name)
    assert found is not None
    return found


# name, GPUs, model, MiB of one, vCPUs, GiB, EFA interfaces, cards, Gbps, NVMe GB
TABLE = [
    ("c5n.18xlarge", 0, "", 0, 72, 192, 1, 1, 100, 0),
    ("p3dn.24xlarge", 8, "V100", 32768, 96, 768, 1, 1, 100, 2 * 900),
    ("p4d.24xlarge", 8, "A100", 40960, 96, 1152, 4, 4, 400, 8 * 1000),
    ("p4de.24xlarge", 8, "A100", 81920, 96, 1152, 4, 4, 400, 8 * 1000),
    ("p5.48xlarge", 8, "H100", 81920, 192, 2048, 32, 32, 3200, 8 * 3800),
    ("p5e.48xlarge", 8, "H200", 144384, 192, 2048, 32, 32, 3200, 8 * 3800),
    ("p5en.48xlarge", 8, "H200", 144384, 192, 2048, 16, 16, 3200, 8 * 3800),
    ("p6-b200.48xlarge", 8, "B200", 183359, 192, 2048, 8, 8, 3200, 8 * 3800),
    ("g5.48xlarge", 8, "A10G", 22888, 192, 768, 1, 1, 100, 2 * 3800),
    ("g6e.48xlarge", 8, "L40S", 45776, 192, 1536, 4, 4, 400, 4 * 1900),
    ("p3.16xlarge", 8, "V100", 16384, 64, 488, 0, 1, 25, 0),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_properties_of_common_training_types(row: tuple[object, ...]) -> None:
    t = known(str(row[0]))
    assert row == (
        t.name, t.gpus, t.gpu_model, t.gpu_memory_mib, t.vcpus, t.memory_mib / 1024,
        t.efa_interfaces, t.network_cards, t.network_gbps, t.nvme_gb,
    )  # fmt: skip


def test_gpudirect_rdma_only_on_types_where_the_nccl_plugin_requires_it() -> None:
    with_it = {name for name in instance_type_names() if known(name).gpudirect_rdma}
    assert with_it == {
        "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge",
        "p6-b200.48xlarge", "p6-b300.48xlarge", "p6e-gb200.36xlarge",
    }  # fmt: skip


def test_every_entry_is_consistent() -> None:
    assert len(instance_type_names()) > 1400
    assert list(instance_type_names()) == sorted(instance_type_names())
    for name in instance_type_names():
        found = known(name)
        assert found.vcpus % found.cores == 0, name
        assert found.threads_per_core in (1, 2), name
        assert found.architecture.removesuffix("_mac") in ("x86_64", "arm64"), name
        assert found.network_gbps is None or found.network_gbps > 0, name
        assert (found.efa_interfaces or 0) <= (found.network_cards or 0), name
        assert bool(found.accelerators) == bool(found.accelerator_model), name
        assert found.accelerator_cores >= found.accelerators, name
        assert bool(found.gpu_model) == bool(found.gpu_memory_mib), name
        if found.gpu_model:
            assert find_gpu_model(found.gpu_model), f"{name} has a GPU that gpus.json lacks"


def test_common_head_nodes_are_there() -> None:
    for name in ("t3.micro", "m5.8xlarge", "m6i.4xlarge", "m7i.large", "c5.9xlarge", "c6i.xlarge"):
        assert known(name).gpus == 0
    assert find_instance_type("p4d.25xlarge") is None
    assert known("p3dn.24xlarge").family == "p3dn"


def test_the_data_has_a_date_and_types_from_elsewhere_a_source() -> None:
    data = json.loads(catalog.DATA_FILE.read_text())
    assert data["source"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", catalogue_date())
    assert {"p3.16xlarge", "g4ad.xlarge", "p6e-gb200.36xlarge"} <= set(data["others"])
    assert all(re.search(r"\b20\d\d", entry["source"]) for entry in data["others"].values())
    assert not set(data["others"]) & set(data["types"])


# CPU-only types of public configs, and the newest accelerated ones
@pytest.mark.parametrize(
    "name",
    [
        "t2.micro",
        "t2.small",
        "c4.large",
        "c5a.24xlarge",
        "c6a.large",
        "c7a.4xlarge",
        "m6a.xlarge",
        "m7g.medium",
        "m4.large",
        "r7i.48xlarge",
        "i3.metal",
        "x2gd.large",
        "c9g.48xlarge",
        "m8azn.24xlarge",
        "u7in-32tb.224xlarge",
    ],
)
def test_cpu_types_are_known_and_have_no_gpu(name: str) -> None:
    assert (known(name).gpus, known(name).accelerators) == (0, 0)


@pytest.mark.parametrize(
    ("name", "count", "model", "ranks"),
    [
        ("trn1.2xlarge", 1, "Trainium", 2),
        ("trn1.32xlarge", 16, "Trainium", 32),
        ("trn2.48xlarge", 16, "Trainium2", 64),
        ("trn2u.48xlarge", 16, "Trainium2", 64),
        ("inf2.48xlarge", 12, "Inferentia2", 24),
        ("dl1.24xlarge", 8, "Gaudi HL-205", 8),
    ],
)
def test_accelerators_are_no_gpus(name: str, count: int, model: str, ranks: int) -> None:
    found = known(name)
    assert (found.gpus, found.accelerators, found.accelerator_model) == (0, count, model)
    assert found.accelerator_ranks == ranks


def test_what_no_source_says_is_unknown_and_not_zero() -> None:
    found = known("p6e-gb200.36xlarge")
    assert (found.gpus, found.gpu_model) == (4, "GB200")
    assert (found.network_gbps, found.efa_interfaces, found.network_cards) == (None, None, None)


def test_gpu_facts() -> None:
    v100, a100, h100 = (find_gpu_model(name) for name in ("V100", "A100", "H100"))
    assert v100
    assert a100
    assert h100
    assert (v100.fp16_tflops, v100.bf16_tflops, v100.bf16) == (125, None, False)
    assert (a100.peak_tflops("fp16"), a100.peak_tflops("bf16"), a100.bf16) == (312, 312, True)
    assert h100.peak_tflops("bf16") == 989
    assert h100.peak_tflops("fp8") is None
    assert (a100.gres_type, gres_type("RTX PRO Server 6000")) == ("a100", "rtxproserver6000")
    assert find_gpu_model("GTX 1080") is None


def test_every_gpu_has_a_source_and_no_bf16_peak_without_bf16() -> None:
    for name in json.loads(catalog.GPUS_FILE.read_text())["models"]:
        model = find_gpu_model(name)
        assert model
        assert model.source
        assert model.bf16 or model.bf16_tflops is None


def test_price_has_a_date_and_is_never_taken_from_another_region() -> None:
    price = find_price("p4d.24xlarge", "us-east-1", "ONDEMAND")
    assert price
    assert price.usd_per_hour == 21.957642
    assert price.source
    assert re.fullmatch(r"\d{4}-\d{2}", price.date)
    assert find_price("p4d.24xlarge", "eu-west-1", "ONDEMAND") is None
    assert find_price("p4d.24xlarge", "us-east-1", "SPOT") is None
    assert find_price("t3.micro", "us-east-1", "ONDEMAND") is None


def test_every_price_is_of_a_known_type_and_has_a_date_and_a_source() -> None:
    assert all_prices()
    for price in all_prices():
        assert find_instance_type(price.instance_type)
        assert price.purchase in ("ONDEMAND", "SPOT", "CAPACITY_BLOCK")
        assert price.source
        assert re.fullmatch(r"\d{4}-\d{2}(-\d{2})?", price.date)


# ------------------------------------------------------------------ against AWS's own data


@pytest.mark.aws
def test_the_catalogue_equals_a_refresh_from_motos_dump(tmp_path: pathlib.Path) -> None:
    moto = pytest.importorskip("moto")
    from clusterjobs.catalog.refresh import load_entries, write_catalogue

    dump = pathlib.Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz"
    copy = tmp_path / "types.json"
    copy.write_text(catalog.DATA_FILE.read_text())
    before = json.loads(copy.read_text())
    write_catalogue(load_entries(dump), before["source"], before["date"], copy)
    assert copy.read_text() == catalog.DATA_FILE.read_text()


@pytest.mark.aws
def test_every_entry_agrees_with_describe_instance_types() -> None:
    moto = pytest.importorskip("moto")
    path = pathlib.Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz"
    answers = json.loads(gzip.decompress(path.read_bytes()))
    others = json.loads(catalog.DATA_FILE.read_text())["others"]
    assert set(instance_type_names()) == {*answers, *others}
    for name in answers:
        found, answer = known(name), answers[name]
        network = answer["NetworkInfo"]
        nvidia = [
            gpu for gpu in answer.get("GpuInfo", {}).get("Gpus", [])
            if gpu["Manufacturer"] == "NVIDIA"
        ]  # fmt: skip
        assert found.vcpus == answer["VCpuInfo"]["DefaultVCpus"], name
        assert found.threads_per_core == answer["VCpuInfo"].get("DefaultThreadsPerCore", 1), name
        assert found.memory_mib == answer["MemoryInfo"]["SizeInMiB"], name
        assert found.gpus == sum(gpu["Count"] for gpu in nvidia), name
        assert found.network_cards == network["MaximumNetworkCards"], name
        assert bool(found.efa_interfaces) == network["EfaSupported"], name
        assert found.architecture in answer["ProcessorInfo"]["SupportedArchitectures"], name
        assert bool(found.nvme_gb) == answer["InstanceStorageSupported"], name
