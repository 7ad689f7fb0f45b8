"""Properties of AWS instance types and of NVIDIA's GPUs.

The data is in `instance_types.json`, written by `refresh.py`, and `gpus.json`. It is JSON because
that loads in a few milliseconds.
"""

import functools
import json
import pathlib
import re
from typing import Any, NamedTuple

DATA_FILE = pathlib.Path(__file__).with_name("instance_types.json")


class InstanceType(NamedTuple):
    """One instance type. Memory in MiB, `nvme_gb` (all local disks together) in 10^9 bytes.

    None is unknown. `gpus` counts whole NVIDIA GPUs, as ParallelCluster does: a type with a
    fraction of a GPU (g6f) has 0, and no gres in Slurm. `gpu_memory_mib` is the memory of one GPU.
    `network_gbps` is the peak over all network cards. `gpudirect_rdma`: the NIC accesses GPU memory
    directly. `accelerators` are devices other than NVIDIA's GPUs (`Trainium`), which have no gres
    either; `accelerator_cores` counts the NeuronCores of all of them.
    """

    name: str
    vcpus: int
    cores: int
    memory_mib: int
    gpus: int
    gpu_model: str
    gpu_memory_mib: int
    efa_interfaces: int | None
    network_cards: int | None
    network_gbps: float | None
    nvme_gb: int
    gpudirect_rdma: bool
    architecture: str
    accelerators: int = 0
    accelerator_model: str = ""
    accelerator_cores: int = 0

    @property
    def threads_per_core(self) -> int:
        return self.vcpus // self.cores

    @property
    def accelerator_ranks(self) -> int:
        """How many ranks use all accelerators: one per NeuronCore, or per pair of Trainium2's.

        Source: AWS Neuron documentation, logical NeuronCore configuration (2 by default on trn2).
        """
        return self.accelerator_cores // (2 if self.accelerator_model == "Trainium2" else 1)

    @property
    def neuron_cores(self) -> int:
        """The NeuronCores that torch-neuronx can use: not those of the first Inferentia.

        Source: AWS Neuron documentation, PyTorch NeuronX (Inf2, Trn1, Trn2).
        """
        return 0 if self.accelerator_model == "Inferentia" else self.accelerator_cores

    @property
    def family(self) -> str:
        """The part before the dot: `p3dn`."""
        return self.name.partition(".")[0]


def find_instance_type(name: str) -> InstanceType | None:
    """The properties of a type such as `p4d.24xlarge`, or None if the catalogue lacks it."""
    row = _rows().get(name)
    return InstanceType(name, *row) if row else None


def instance_type_names() -> tuple[str, ...]:
    """Every name in the catalogue, in alphabetical order."""
    return tuple(_rows())


def catalogue_date() -> str:
    """The day of the data: a type that AWS announced later is missing."""
    return str(_data()["date"])


@functools.cache
def _rows() -> dict[str, list[Any]]:
    data = _data()
    rows = {**data["types"], **{name: entry["row"] for name, entry in data["others"].items()}}
    return dict(sorted(rows.items()))


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    return data


# ------------------------------------------------------------------ gpus
# Properties of NVIDIA's GPUs, by the model names that EC2 uses.


GPUS_FILE = pathlib.Path(__file__).with_name("gpus.json")


class GpuModel(NamedTuple):
    """One model, with EC2's name (`A100`).

    The peaks are dense TFLOP/s of one GPU; None if the format is not supported or NVIDIA publishes
    no dense number. `nvlink_gbs` counts one way. `memory_gbs` has the memory's GB/s for each
    variant's GiB. `source` is the source of the numbers.
    """

    name: str
    fp16_tflops: float | None
    bf16_tflops: float | None
    bf16: bool
    fp8_tflops: float | None
    nvlink_gbs: float | None
    memory_gbs: dict[str, float]
    source: str

    @property
    def gres_type(self) -> str:
        return gres_type(self.name)

    def peak_tflops(self, precision: str) -> float | None:
        """The peak for `fp16` or `bf16`; None for anything else."""
        return {"fp16": self.fp16_tflops, "bf16": self.bf16_tflops}.get(precision)


def gres_type(model: str) -> str:
    """The type in Slurm's `gpu:a100:8`, as ParallelCluster writes it: lower case, no spaces.

    Source: aws-parallelcluster-cookbook, slurm/config_utils.py, get_min_gpu_count_and_type.
    """
    return model.replace(" ", "").lower()


def find_gpu_model(name: str) -> GpuModel | None:
    """The properties of a model such as `A100`, or None if the catalogue lacks it."""
    row = _gpu_rows().get(name)
    return GpuModel(name, *row) if row else None


def gpu_model_of(text: str) -> str | None:
    """The catalogue's name of a model that is written in some other way; None if it lacks it.

    `a100`, `nvidia_a100_3g.20gb` (a part of one, by Slurm's AutoDetect) and `NVIDIA
    A100-SXM4-40GB` (by nvidia-smi) are `A100`. `NVIDIA H100 PCIe` and `NVL` are not the catalogue's
    `H100`, whose numbers are those of SXM: NVIDIA's data sheet has lower ones for them.
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    if "h100" in words and not {"pcie", "nvl"}.isdisjoint(words):
        return None
    by_type = {gres_type(name): name for name in _gpu_rows()}
    return next((by_type[word] for word in ("".join(words), *words) if word in by_type), None)


@functools.cache
def _gpu_rows() -> dict[str, list[Any]]:
    models: dict[str, list[Any]] = json.loads(GPUS_FILE.read_text(encoding="utf-8"))["models"]
    return models


# ------------------------------------------------------------------ prices
# List prices by the hour. They change, so each has a date and a source, which estimates show.


PRICES_FILE = pathlib.Path(__file__).with_name("prices.json")


class Price(NamedTuple):
    """List price of one instance for one hour, in USD.

    `purchase` is a CapacityType of ParallelCluster: ONDEMAND, SPOT, CAPACITY_BLOCK.
    """

    instance_type: str
    region: str
    purchase: str
    usd_per_hour: float
    date: str
    source: str


def find_price(instance_type: str, region: str, purchase: str) -> Price | None:
    """The price in this region, bought in this way, or None; never another price in its place."""
    return _prices().get((instance_type, region, purchase))


def all_prices() -> tuple[Price, ...]:
    """Every price of the catalogue."""
    return tuple(_prices().values())


@functools.cache
def _prices() -> dict[tuple[str, str, str], Price]:
    rows: list[dict[str, Any]] = json.loads(PRICES_FILE.read_text(encoding="utf-8"))["prices"]
    prices = [Price(row.pop("type"), **row) for row in rows]
    return {(one.instance_type, one.region, one.purchase): one for one in prices}
