"""The time of a step follows the physics that it claims, effect by effect."""

from __future__ import annotations

import pytest

from benchmarks.published_rows import published
from clusterjobs.foresight.formulas.constants import fitted_constants
from clusterjobs.foresight.formulas.step import StepTime, slowest_stage, step_time
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Gpu, Layout, ModelShape, Network, hardware_flops, model_flops

LLAMA_8B = ModelShape(
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    ffn=14336,
    sequence=8192,
    vocab=128256,
    gated=True,
    tied=False,
    positions="rotary",
    bias=False,
    norm="rms",
)
MEGATRON = Layout(
    gpus=64,
    gpus_per_node=8,
    micro_batch=1,
    global_batch=512,
    engine="megatron-core",
    zero=1,
)
NETWORK = Network(3200, "infiniband")


def gpu(name: str = "H100-80") -> Gpu:
    found = find_gpu(name)
    assert found
    return found


def times(layout: Layout, model: ModelShape = LLAMA_8B, network: Network = NETWORK) -> StepTime:
    return step_time(model, layout, gpu(), network, fitted_constants())


def test_parts_add_up_to_the_step() -> None:
    step = times(MEGATRON._replace(tensor=2, pipeline=4, recompute="full"))
    assert step.seconds == pytest.approx(sum(step._asdict().values()))
    assert min(step) >= 0
    assert step.bubble > 0
    assert step.tensor > 0
    assert step.messages > 0


def test_bubble_is_p_minus_1_by_m_and_virtual_stages_divide_it() -> None:
    plain = times(MEGATRON._replace(pipeline=4))
    m = 512 / (64 / 4)
    busy = plain.seconds - plain.bubble - plain.data - plain.optimizer - plain.other
    assert plain.bubble == pytest.approx(busy * 3 / m)
    interleaved = times(MEGATRON._replace(pipeline=4, virtual_pipeline=8))
    assert interleaved.bubble == pytest.approx(plain.bubble / 8)


def test_full_recomputation_adds_a_forward_pass() -> None:
    none, full = times(MEGATRON), times(MEGATRON._replace(recompute="full"))
    forward = none.products / 3 + none.attention / 3.5 + none.elementwise / 3 + none.fixed / 3
    assert full.recomputation == pytest.approx(forward)
    assert none.recomputation == 0


def test_fsdp_sends_for_every_micro_batch_and_zero_1_once_a_step() -> None:
    slow = Network(100)
    fsdp = MEGATRON._replace(engine="fsdp", zero=3)
    few, many = times(fsdp._replace(global_batch=64), network=slow), times(fsdp, network=slow)
    assert many.data == pytest.approx(8 * few.data)
    zero_1 = times(MEGATRON._replace(global_batch=64), network=slow), times(MEGATRON, network=slow)
    assert zero_1[1].data == pytest.approx(zero_1[0].data)


def test_hybrid_sharding_keeps_the_weights_inside_the_node() -> None:
    fsdp = MEGATRON._replace(engine="fsdp", zero=3)
    slow = Network(100)
    assert times(fsdp._replace(zero_group=8), network=slow).data < times(fsdp, network=slow).data


def test_tensor_parallelism_over_nodes_is_much_slower_than_inside() -> None:
    inside = times(MEGATRON._replace(tensor=8), network=Network(100))
    over = times(MEGATRON._replace(tensor=16), network=Network(100))
    assert over.tensor > 10 * inside.tensor


def test_zero_splits_the_update() -> None:
    whole, split = times(MEGATRON._replace(zero=0)), times(MEGATRON)
    assert whole.optimizer == pytest.approx(64 * split.optimizer)


def test_one_gpu_has_no_traffic() -> None:
    step = times(MEGATRON._replace(gpus=1, global_batch=8))
    assert (step.tensor, step.data, step.messages, step.bubble, step.experts) == (0, 0, 0, 0, 0)


def test_the_last_stage_has_the_head_or_megatron_counts_it_as_a_layer() -> None:
    model = LLAMA_8B._replace(layers=126)
    layout = MEGATRON._replace(pipeline=16)
    assert slowest_stage(model, layout, layer=1.0, head=0.5) == (8, False)
    assert slowest_stage(model, layout, layer=1.0, head=2.0) == (7, True)
    assert slowest_stage(model, layout._replace(pipeline=4), layer=1.0, head=0.5) == (32, False)
    assert slowest_stage(LLAMA_8B, layout, layer=1.0, head=0.5) == (2, True)


def test_flops_are_those_of_megatron_s_equation_3() -> None:
    b, s, layers, h, v = 64, 2048, 40, 6144, 51200
    model = ModelShape(layers, h, 48, 48, 128, 4 * h, s, v)
    layout = Layout(8, 8, 1, b, "megatron-core", recompute="full")
    common = b * s * layers * h**2
    assert model_flops(model, b) == pytest.approx(
        72 * common * (1 + s / (6 * h) + v / (12 * layers * h))
    )
    assert hardware_flops(model, layout) == pytest.approx(
        96 * common * (1 + s / (6 * h)) + 6 * b * s * h * v
    )


def test_some_published_steps_are_met_within_their_known_error() -> None:
    """Rows of five publications that any change of the model should keep."""
    wanted = {
        ("Megatron SC21 table 1", 512): 0.07,
        ("NVIDIA NeMo-Framework-Launcher examples README", 512): 0.05,
        ("Megatron-Core README strong scaling", 96): 0.05,
        ("InternEvo train_performance", 8): 0.06,
        ("torchtitan benchmarks", 8): 0.15,
    }
    for (source, gpus), most in wanted.items():
        row = next(r for r in published() if r.source == source and r.layout.gpus == gpus)
        step = step_time(row.model, row.layout, row.gpu, row.network, fitted_constants())
        assert row.step_seconds
        assert step.seconds == pytest.approx(row.step_seconds, rel=most), source


def test_a_ring_that_stays_in_a_node_uses_nvlink() -> None:
    """Stages over nodes, with the two data-parallel ranks of each stage in one node."""
    inside = MEGATRON._replace(tensor=4, pipeline=8)
    slow, fast = times(inside, network=Network(100)), times(inside)
    assert inside.gradient_ranks * inside.tensor == inside.gpus_per_node
    assert slow.data == pytest.approx(fast.data)
    over = MEGATRON._replace(tensor=4, pipeline=4)
    assert times(over, network=Network(100)).data > times(over).data


def test_sharded_ranks_of_tensor_parallelism_reach_over_nodes() -> None:
    """Eight shards of eight tensor-parallel ranks each are on eight nodes."""
    sharded = MEGATRON._replace(engine="fsdp", zero=3, tensor=8)
    assert sharded.gradient_ranks == 8
    assert times(sharded, network=Network(100)).data > 2 * times(sharded).data


def test_zero_2_reduces_for_every_micro_batch_and_zero_1_once() -> None:
    slow = Network(100)

    def data(zero: int, batch: int) -> float:
        layout = MEGATRON._replace(engine="deepspeed", zero=zero, global_batch=batch)
        return times(layout, network=slow).data

    assert data(1, 512) == pytest.approx(data(1, 64))
    assert data(2, 64) == pytest.approx(data(1, 64))
    assert data(2, 512) > 3 * data(2, 64)


def test_megatron_core_crosses_nodes_and_internevo_every_rank() -> None:
    """The latency of a ring of 256 nodes, or of 2,048 ranks."""
    large = MEGATRON._replace(gpus=2048, global_batch=2048)
    without = fitted_constants()._replace(ring_latency=0.0)

    def latency(engine: str) -> float:
        layout = large._replace(engine=engine)  # type: ignore[arg-type]
        unhindered = step_time(LLAMA_8B, layout, gpu(), NETWORK, without).data
        return times(layout).data - unhindered

    assert latency("internevo") > 4 * latency("megatron-core") > 0


def test_deepspeed_hides_less_of_its_sharded_weights_than_fsdp() -> None:
    sharded = MEGATRON._replace(zero=3)
    network = Network(800)
    fsdp = times(sharded._replace(engine="fsdp"), network=network).data
    assert times(sharded._replace(engine="deepspeed"), network=network).data > 2 * fsdp
