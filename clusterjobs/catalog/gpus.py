"""Properties of NVIDIA's GPUs, by the model names that EC2 uses. Must not know instance types."""

from __future__ import annotations

import functools
import json
import pathlib
import re
from typing import Any, NamedTuple

DATA_FILE = pathlib.Path(__file__).with_name("gpus.json")


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
    row = _rows().get(name)
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
    by_type = {gres_type(name): name for name in _rows()}
    return next((by_type[word] for word in ("".join(words), *words) if word in by_type), None)


@functools.cache
def _rows() -> dict[str, list[Any]]:
    models: dict[str, list[Any]] = json.loads(DATA_FILE.read_text(encoding="utf-8"))["models"]
    return models
