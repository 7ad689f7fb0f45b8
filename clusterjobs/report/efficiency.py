"""TFLOP/s per GPU from a run's samples/s: model FLOPs, and those with recomputation beside them."""

from __future__ import annotations

from clusterjobs.foresight.flops import hardware_flops, model_flops
from clusterjobs.foresight.records import Gpu, Layout, ModelShape
from clusterjobs.report.run import Efficiency


def efficiency_of(
    samples_per_second: float, model: ModelShape, layout: Layout, gpu: Gpu | None, gpus: int
) -> Efficiency:
    """MFU counts every matrix product once forward and twice backward (`foresight/flops.py`).

    HFU counts what the layout computes again, too (arXiv 2205.05198); None without recomputation.
    """
    flops = model_flops(model, 1) * samples_per_second / gpus
    again = hardware_flops(model, layout._replace(global_batch=1)) * samples_per_second / gpus
    recomputes = layout.recompute != "none"
    peak = gpu.peak(layout.precision) if gpu else None
    return Efficiency(
        tflops_per_gpu_mfu=flops / 1e12,
        tflops_per_gpu_hfu=again / 1e12 if recomputes else None,
        mfu=flops / peak if peak else None,
        hfu=again / peak if peak and recomputes else None,
        peak_tflops=peak / 1e12 if peak else None,
        gpu=gpu.name if gpu else "",
        formula=_formula(model, layout),
    )


def _formula(model: ModelShape, layout: Layout) -> str:
    attention = "the whole attention matrix" if model.causal else "attention"
    again = {
        "none": "nothing is computed again",
        "full": "HFU adds one more forward pass of the layers",
        "selective": "HFU adds the attention core once more",
    }.get(layout.recompute, "HFU adds about half a forward pass of the layers")
    return f"3 x forward FLOPs of all matrix products, with {attention} and the head; {again}"
