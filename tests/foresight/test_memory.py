"""Memory of one rank: its parts, and how layouts change them. Numbers are computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from clusterjobs.foresight.formulas.memory import (
    GIB,
    estimate_memory,
    memory_share,
    stage_parts,
    verdict_of,
    worst_rank,
)
from clusterjobs.foresight.formulas.memory_parts import (
    count_parameters,
    layer_activations,
    micro_batches_in_flight,
    states_per_parameter,
)
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Engine, Layout, ModelShape

MODEL = ModelShape(24, 1024, 16, 16, 64, 4096, 1024, 50_304)
BASE = Layout(8, 8, 4, 64, "megatron-core")


def with_(**fields: Any) -> Layout:
    return BASE._replace(**fields)


def peak_bytes(layout: Layout) -> float:
    return worst_rank(MODEL, layout).parts.total


def peak(**fields: Any) -> float:
    return peak_bytes(with_(**fields))


@pytest.mark.parametrize(
    ("engine", "precision", "zero", "bytes_of_one", "bytes_of_eight"),
    [
        ("megatron-core", "bf16", 0, 18, 18),
        ("megatron-core", "bf16", 1, 18, 6 + 12 / 8),
        ("megatron-core", "fp16", 1, 20, 4 + 16 / 8),
        ("megatron-core", "fp32", 1, 16, 8 + 8 / 8),
        ("deepspeed", "fp16", 1, 20, 4 + 16 / 8),
        ("deepspeed", "bf16", 1, 20, 8 + 12 / 8),
        ("deepspeed", "bf16", 2, 20, 2 + 18 / 8),
        ("deepspeed", "bf16", 3, 18, 18 / 8),
        ("fsdp", "bf16", 3, 16, 16 / 8),
        ("fsdp", "pure_bf16", 3, 8, 8 / 8),
        ("ddp", "fp32", 0, 16, 16),
    ],
)
def test_bytes_of_states(
    engine: Engine, precision: str, zero: int, bytes_of_one: float, bytes_of_eight: float
) -> None:
    layout = with_(engine=engine, precision=precision, zero=zero)
    assert sum(states_per_parameter(layout, 1)) == pytest.approx(bytes_of_one)
    assert sum(states_per_parameter(layout, 8)) == pytest.approx(bytes_of_eight)


@pytest.mark.parametrize(
    ("optimizer", "saved"), [("adafactor", 8), ("momentum", 4), ("adam8bit", 6), ("lamb", 0)]
)
def test_optimizers_with_fewer_moments(optimizer: str, saved: float) -> None:
    adam, other = (
        sum(states_per_parameter(with_(optimizer=name), 1)) for name in ("adam", optimizer)
    )
    assert adam - other == pytest.approx(saved)


def test_activations_of_a_layer_are_those_of_the_paper() -> None:
    """arXiv 2205.05198, eq. 1: sbh(34 + 5as/h), with dropout and without flash attention."""
    layout = with_(flash=False, attention_dropout=True, hidden_dropout=True, micro_batch=1)
    s, h, a = 1024, 1024, 16
    assert layer_activations(MODEL, layout).whole == pytest.approx(s * h * (34 + 5 * a * s / h))


def test_tensor_and_sequence_parallelism_divide_activations() -> None:
    """The same paper, eq. 2 and 4: sbh(10 + 24/t + 5as/ht), and all of it divided by t."""
    layout = with_(flash=False, attention_dropout=True, hidden_dropout=True, micro_batch=1)
    s, h, a, t = 1024, 1024, 16, 4
    tensor = layer_activations(MODEL, layout._replace(tensor=t)).whole
    assert tensor == pytest.approx(s * h * (10 + 24 / t + 5 * a * s / (h * t)))
    both = layout._replace(tensor=t, sequence_parallel=True)
    assert layer_activations(MODEL, both).whole == pytest.approx(s * h / t * (34 + 5 * a * s / h))


def test_first_stage_holds_as_many_micro_batches_as_there_are_stages() -> None:
    layout = with_(pipeline=4, gpus=4)
    assert [micro_batches_in_flight(layout, stage) for stage in range(4)] == [4, 3, 2, 1]
    few = layout._replace(global_batch=8)
    assert micro_batches_in_flight(few, 0) == 2


def test_interleaved_stages_hold_more() -> None:
    layout = with_(pipeline=4, virtual_pipeline=2, gpus=4)
    assert micro_batches_in_flight(layout, 0) == (2 * 3 + 1 * 4 + 1) / 2


def test_parts_add_up_and_none_is_negative() -> None:
    memory = estimate_memory(MODEL, BASE, gpu("A100-40"))
    assert sum(memory.parts.values()) == pytest.approx(memory.gib.mid)
    assert set(memory.parts) == {
        *("weights", "gradients", "optimizer", "activations", "logits"),
        *("communication", "context"),
    }
    assert min(memory.parts.values()) >= 0
    assert memory.parts["weights"] * GIB == pytest.approx(2 * count_parameters(MODEL))


def gpu(name: str) -> Any:
    found = find_gpu(name)
    assert found is not None
    return found


def test_the_worst_rank_is_the_first_stage_or_that_of_a_large_vocabulary() -> None:
    layout = with_(pipeline=4, gpus=4, micro_batch=8)
    assert worst_rank(MODEL, layout).stage == 0
    assert worst_rank(MODEL._replace(vocab=256_000), layout).stage == 3


def test_the_worst_stage_needs_as_much_as_any_between() -> None:
    for micro in (1, 8):
        layout = with_(pipeline=8, gpus=8, micro_batch=micro)
        between = max(stage_parts(MODEL, layout, stage).total for stage in range(8))
        assert peak_bytes(layout) >= between


@pytest.mark.parametrize(
    "change",
    [
        {"zero": 1},
        {"micro_batch": 2},
        {"recompute": "full"},
        {"tensor": 2},
        {"pipeline": 2, "gpus": 16},
        {"context": 2},
        {"optimizer": "adam8bit"},
    ],
)
def test_what_should_lower_memory_lowers_it(change: dict[str, Any]) -> None:
    assert peak(**change) < peak()


def test_flash_attention_and_recomputation_of_attention_save_the_scores() -> None:
    without = peak(flash=False)
    assert max(peak(flash=True), peak(flash=False, recompute="selective")) < without / 1.2


def test_offload_takes_memory_of_the_host_in_place_of_the_gpu() -> None:
    layout = with_(engine="deepspeed", zero=2)
    offloaded = estimate_memory(MODEL, layout._replace(offload="optimizer"), gpu("A100-40"))
    assert offloaded.parts["optimizer"] == 0
    assert offloaded.host_gib * GIB == pytest.approx(count_parameters(MODEL) * 16 * 1.5)
    assert estimate_memory(MODEL, layout, gpu("A100-40")).host_gib == 0


def test_gradients_that_fsdp_keeps_while_it_accumulates() -> None:
    """A model of 70B with tensor 4 measured 83 GiB on each GPU, most of it whole gradients."""
    each = with_(engine="fsdp", zero=3, gradient_sync="each")
    last = each._replace(gradient_sync="last")
    added = peak_bytes(last) - peak_bytes(each)
    assert added == pytest.approx(1.06 * 4 * count_parameters(MODEL))
    once = last._replace(global_batch=32)
    assert peak_bytes(once) == peak_bytes(once._replace(gradient_sync="each"))


def test_what_fsdp_may_keep_is_in_the_range_and_in_the_verdict() -> None:
    model = MODEL._replace(layers=80, hidden=8192, ffn=28_672, heads=64, kv_heads=64, head_dim=128)
    layout = Layout(64, 8, 1, 512, "fsdp", zero=3, recompute="full")
    unknown = estimate_memory(model, layout, gpu("A100-80"))
    each = estimate_memory(model, layout._replace(gradient_sync="each"), gpu("A100-80"))
    assert (each.verdict, unknown.verdict) == ("fits", "borderline")
    assert unknown.gib.mid == each.gib.mid
    assert unknown.gib.high > each.gib.high


def test_gradients_of_megatron_in_16_bit() -> None:
    layout = with_(zero=1, gradient_bytes=2.0)
    assert sum(states_per_parameter(layout, 8)) == pytest.approx(4 + 12 / 8)


def test_buckets_of_deepspeed_are_not_larger_than_the_gradients() -> None:
    layout = with_(engine="megatron-deepspeed", zero=1)
    small, large = (stage_parts(MODEL._replace(layers=layers), layout, 0) for layers in (2, 100))
    added = [one.communication - 0.22 * one.allocated for one in (small, large)]
    assert added[0] < 1.3 * GIB
    assert added[1] == pytest.approx(4.3 * GIB, rel=0.01)


def test_a_job_that_fits_only_without_fragmentation_is_borderline() -> None:
    """1.3B on V100s of 32 GiB with micro batch 16 ran out of memory: its logits are 6 GiB."""
    model = MODEL._replace(hidden=2048, ffn=8192, head_dim=128, sequence=2048)
    layout = Layout(
        *(8, 4, 16, 512, "megatron-deepspeed"),
        pipeline=2,
        zero=1,
        recompute="full",
        flash=False,
        precision="fp16",
    )
    share = memory_share(model, layout, gpu("V100-32"))
    assert verdict_of(share) == "borderline"
    assert estimate_memory(model, layout, gpu("V100-32")).margin > 0.1
