"""What would make a job fit: single changes, the cheapest first, or several together."""

from __future__ import annotations

from typing import Any

from clusterjobs.foresight.formulas.memory import Memory, estimate_memory
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Layout, ModelShape

LLAMA_7B = ModelShape(
    *(32, 4096, 32, 32, 128, 11_008, 4096, 32_000),
    gated=True,
    tied=False,
    positions="rotary",
    bias=False,
    norm="rms",
)


def memory(gpus: int = 8, micro_batch: int = 1, **fields: Any) -> Memory:
    engine = fields.pop("engine", "megatron-core")
    gpu = find_gpu("A100-80")
    assert gpu is not None
    return estimate_memory(LLAMA_7B, Layout(gpus, 8, micro_batch, 64, engine, **fields), gpu)


def kinds(found: Memory) -> list[str]:
    return [one.partition(":")[0] for one in found.remedies]


def test_nothing_is_said_of_a_job_that_fits() -> None:
    found = memory(tensor=8, sequence_parallel=True)
    assert found.verdict == "fits"
    assert found.remedies == ()


def test_the_free_change_comes_first() -> None:
    found = memory(tensor=2)
    assert found.verdict == "borderline"
    assert kinds(found)[0] == "sequence parallelism"


def test_the_largest_micro_batch_that_fits_is_named() -> None:
    found = memory(tensor=8, sequence_parallel=True, zero=1, micro_batch=32)
    assert found.verdict != "fits"
    assert kinds(found)[0] == "micro batch 16"


def test_several_changes_are_named_together_if_one_is_not_enough() -> None:
    found = memory(micro_batch=4)
    assert len(found.remedies) == 1
    assert found.remedies[0].startswith("a distributed optimizer and micro batch 1 together: ")


def test_sharding_is_a_remedy_for_ddp() -> None:
    assert "FSDP in place of DDP" in kinds(memory(engine="ddp", recompute="full"))


def test_one_gpu_that_is_too_small_is_said_to_be() -> None:
    found = memory(gpus=1, engine="ddp", recompute="full")
    assert found.remedies == (
        "more GPUs, or GPUs with more memory: no change of the layout is enough",
    )
