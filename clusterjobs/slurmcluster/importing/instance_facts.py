"""What EC2 and Google Compute Engine say of a node whose machine type is known.

Slurm does not know the model of a GPU, its memory, or the network. It must not know Slurm's texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clusterjobs.catalog.instances import InstanceType, find_instance_type

_HYPERPOD = "ml."  # SageMaker's names of EC2's types: ml.p5.48xlarge


class MachineFacts(NamedTuple):
    """Facts of a machine type; None and "" are unknown. `source` names the type and who says it."""

    name: str
    source: str
    gpu_model: str = ""
    gpu_memory: float | None = None
    fabric: str = ""
    fabric_interfaces: int | None = None
    network_gbps: float | None = None
    local_disk_gb: int | None = None


def machine_type_in(words: Iterable[str]) -> str:
    """The first word that is a known machine type, as it is written; "" if none is."""
    return next((word for word in words if machine_facts(word)), "")


def machine_facts(name: str) -> MachineFacts | None:
    """The facts of `p4d.24xlarge`, `ml.p5.48xlarge` or `a3-highgpu-8g`; None if it is unknown."""
    if found := find_instance_type(name.removeprefix(_HYPERPOD)):
        return _of_ec2(name, found)
    if row := _GOOGLE_ROWS.get(name):
        return MachineFacts(name, f"Google's data of {name}", *row)
    return None


def is_hyperpod(name: str) -> bool:
    """Whether SageMaker HyperPod names its instances so."""
    return name.startswith(_HYPERPOD)


def _of_ec2(name: str, found: InstanceType) -> MachineFacts:
    has_efa = bool(found.efa_interfaces)
    return MachineFacts(
        name=name,
        source=f"EC2's data of {found.name}",
        gpu_model=found.gpu_model if found.gpus else "",
        gpu_memory=round(found.gpu_memory_mib / 1024, 2) if found.gpus else None,
        fabric={None: "", 0: "ethernet"}.get(found.efa_interfaces, "efa"),
        fabric_interfaces=found.efa_interfaces if has_efa else None,
        network_gbps=found.network_gbps,
        local_disk_gb=found.nvme_gb or None,
    )


# cloud.google.com, "Networking and GPU machines", November 2026: the GPUs, the network for them,
# its interfaces beside the one of the host, and the peak of all. A3 Ultra and A4 are left out:
# their RDMA over Converged Ethernet is none of the fabrics that a description can name.
_A2 = ("A100", 40.0, "gvnic", None, None)
_A2_ULTRA = ("A100", 80.0, "gvnic", None, None)
_A3_SMALL = ("H100", 80.0, "gvnic", None, None)  # one interface: no GPUDirect
_GOOGLE_ROWS: dict[str, tuple[str, float, str, int | None, float | None]] = {
    **{f"a2-highgpu-{gpus}g": _A2 for gpus in (1, 2, 4)},
    **{f"a2-ultragpu-{gpus}g": _A2_ULTRA for gpus in (1, 2, 4)},
    **{f"a3-highgpu-{gpus}g": _A3_SMALL for gpus in (1, 2, 4)},
    "a2-highgpu-8g": ("A100", 40.0, "gvnic", None, 100.0),
    "a2-megagpu-16g": ("A100", 40.0, "gvnic", None, 100.0),
    "a2-ultragpu-8g": ("A100", 80.0, "gvnic", None, 100.0),
    "a3-highgpu-8g": ("H100", 80.0, "tcpx", 4, 1000.0),
    "a3-megagpu-8g": ("H100", 80.0, "tcpxo", 8, 1800.0),
}
