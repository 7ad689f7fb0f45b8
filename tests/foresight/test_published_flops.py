"""FLOP/s as a published log of Megatron-DeepSpeed reports them, from its samples per second."""

from __future__ import annotations

import pytest

from clusterjobs.models.records import Layout, ModelShape, hardware_flops

GPT_345M = ModelShape(24, 1024, 16, 16, 64, 4096, 1024, 50_304)


@pytest.mark.parametrize(
    ("gpus", "micro", "batch", "samples_per_second", "teraflops"),
    [(8, 8, 64, 183.128, 73.31), (1, 8, 8, 12.378, 39.64)],
)
def test_flops_of_gpt_345m_with_recomputation(
    gpus: int, micro: int, batch: int, samples_per_second: float, teraflops: float
) -> None:
    layout = Layout(gpus, 8, micro, batch, "megatron-deepspeed", recompute="full", flash=False)
    per_second = hardware_flops(GPT_345M, layout) / batch * samples_per_second
    assert per_second / gpus / 1e12 == pytest.approx(teraflops, abs=0.01)
