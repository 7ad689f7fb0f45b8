"""The worked examples of docs/foresight.md have the numbers that the code computes."""

from __future__ import annotations

import pathlib

from clusterjobs.foresight.formulas.memory import estimate_memory
from clusterjobs.foresight.formulas.speed import estimate_speed
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Gpu, Layout, ModelShape, Network

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "foresight.md"


def gpu(name: str) -> Gpu:
    found = find_gpu(name)
    assert found is not None
    return found


def test_the_speed_of_the_worked_example() -> None:
    model = ModelShape(48, 8192, 64, 64, 128, 32768, 2048, 51200)
    layout = Layout(
        512,
        8,
        4,
        1536,
        "megatron-2020",
        tensor=8,
        pipeline=2,
        virtual_pipeline=2,
        recompute="full",
        flash=False,
        precision="fp16",
    )
    speed = estimate_speed(model, layout, gpu("A100-80"), Network(1600))
    assert speed is not None
    low, mid, high = speed.step_seconds
    page = PAGE.read_text(encoding="utf-8")
    assert f"Step: **{mid:.1f} s, range {low:.1f} to {high:.1f} s." in page
    assert f"MFU {speed.mfu.mid:.0%}, HFU {speed.hfu.mid:.0%}".replace("%", " %") in page


def test_the_memory_of_the_worked_example() -> None:
    model = ModelShape(
        32,
        4096,
        32,
        8,
        128,
        14336,
        4096,
        128256,
        gated=True,
        tied=False,
        positions="rotary",
        bias=False,
        norm="rms",
    )
    layout = Layout(16, 8, 1, 128, "megatron-core", tensor=2, zero=1, sequence_parallel=True)
    memory = estimate_memory(model, layout, gpu("A100-40"))
    page = PAGE.read_text(encoding="utf-8")
    whole = f"Together {memory.gib.mid:.0f} GiB of {memory.capacity:.1f}: {memory.verdict}"
    assert whole in page
    for name in ("weights", "optimizer", "logits"):
        assert f"{memory.parts[name]:.1f} GiB" in page
