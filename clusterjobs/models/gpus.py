"""GPUs by model and memory, made from the catalogue."""

import functools

from clusterjobs.catalog import find_gpu_model
from clusterjobs.models.records import Gpu

# Models whose fitted constants are the same; those that are missing have no published rows.
FAMILIES = {
    "V100": "V100",
    "A100": "A100",
    "H100": "H100",
    "H200": "H100",
    "GH200": "H100",
    "A800": "A100",
    "H800": "H100",
    "B200": "Blackwell",
    "B300": "Blackwell",
    "GB200": "Blackwell",
    "GB300": "Blackwell",
}
OTHER_GPU = 0.15  # a memory that differs more belongs to another GPU
LOW_POWER_H100 = 96  # GiB of the H100 of 500 W, whose memory is slower, too


@functools.cache
def find_gpu(model: str, memory_gib: float | None = None) -> Gpu | None:
    """A GPU by its model and memory, or by `A100-80`; None if the catalogue lacks its numbers.

    Without a memory the smallest variant is taken. A driver shows a little less than the nominal
    memory, so the nearest variant is the one that is meant; a part of a GPU (MIG) is none of them.
    """
    name, _, size = model.partition("-")
    known = find_gpu_model(name)
    if known is None or known.fp16_tflops is None or not known.memory_gbs:
        return None
    variants = {float(gib): bandwidth for gib, bandwidth in known.memory_gbs.items()}
    if memory_gib is None:
        memory_gib = float(size) if size.isdecimal() else min(variants)
    gib = min(variants, key=lambda variant: abs(variant - memory_gib))
    if abs(gib - memory_gib) > OTHER_GPU * gib:
        return None
    family = FAMILIES.get(name, "")
    return Gpu(
        name=f"{name}-{gib:g}",
        family="H100-500W" if (name, gib) == ("H100", LOW_POWER_H100) else family,
        peak_16bit=known.fp16_tflops * 1e12,
        peak_fp8=known.fp8_tflops * 1e12 if known.fp8_tflops else None,
        memory_bandwidth=variants[gib] * 1e9,
        nvlink=(known.nvlink_gbs or 0.0) * 1e9,
        memory_gib=gib,
    )
