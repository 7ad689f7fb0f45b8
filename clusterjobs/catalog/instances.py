"""Properties of AWS instance types: GPUs, memory, network, local disks.

This module must not know clusters, Slurm or experiments. The data is in `instance_types.json`,
written by `refresh.py`. It is JSON because that loads in a few milliseconds.
"""

from __future__ import annotations

import functools
import json
import pathlib
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
