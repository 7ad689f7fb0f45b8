"""What NVIDIA's GPUs can do; knows nothing of instance types but the model names they use."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any, NamedTuple

DATA_FILE = pathlib.Path(__file__).with_name("gpus.json")


class GpuModel(NamedTuple):
    """One model, named as EC2 names it (`A100`).

    The peaks are dense TFLOP/s of one GPU, None where the format is not supported or NVIDIA gives
    no dense figure. `source` says where they are from.
    """

    name: str
    fp16_tflops: float | None
    bf16_tflops: float | None
    bf16: bool
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
    """The facts of `A100`, or None where the catalogue does not have it."""
    row = _rows().get(name)
    return GpuModel(name, *row) if row else None


@functools.cache
def _rows() -> dict[str, list[Any]]:
    models: dict[str, list[Any]] = json.loads(DATA_FILE.read_text(encoding="utf-8"))["models"]
    return models
