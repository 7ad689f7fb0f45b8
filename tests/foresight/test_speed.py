"""What a person sees of a speed: ranges, limits, doubts and the nearest measurements."""

from __future__ import annotations

import pytest

from benchmarks.published_rows import tied
from clusterjobs.foresight.formulas.speed import Speed, estimate_speed
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Experts, Layout, ModelShape, Network

GPT = ModelShape(24, 2048, 16, 16, 128, 8192, 2048, 50304)
LAYOUT = Layout(16, 8, 4, 256, "megatron-core", zero=1)
INFINIBAND = Network(3200, "infiniband")


def speed(
    layout: Layout = LAYOUT,
    model: ModelShape = GPT,
    gpu: str = "H100-80",
    network: Network = INFINIBAND,
) -> Speed:
    found = find_gpu(gpu)
    assert found
    estimate = estimate_speed(model, layout, found, network)
    assert estimate
    return estimate


def test_rates_come_from_the_step_and_keep_the_order_of_the_range() -> None:
    found = speed()
    tokens = LAYOUT.global_batch * GPT.sequence / LAYOUT.gpus
    assert found.tokens_per_second_per_gpu.low == pytest.approx(tokens / found.step_seconds.high)
    for values in (found.step_seconds, found.mfu, found.tflops_per_gpu, found.hfu):
        assert 0 < values.low < values.mid < values.high
    assert found.mfu.mid == pytest.approx(found.tflops_per_gpu.mid / 989)
    assert found.hfu == found.mfu
    again = speed(LAYOUT._replace(recompute="full"))
    assert 1.2 * again.mfu.mid < again.hfu.mid < 4 / 3 * again.mfu.mid


def test_a_validated_layout_has_a_narrow_range_and_no_doubts() -> None:
    found = speed()
    assert found.validated
    assert found.doubts == ()
    assert found.step_seconds.high / found.step_seconds.low < 1.5


@pytest.mark.parametrize(
    ("layout", "network", "doubt"),
    [
        ({"engine": "fairseq"}, INFINIBAND, "for fairseq"),
        ({"engine": "horovod"}, INFINIBAND, "for Horovod"),
        ({"engine": "fsdp", "zero": 3}, Network(3200, "efa"), "FSDP over EFA"),
        ({"engine": "deepspeed", "zero": 2}, Network(3200, "efa"), "ZeRO-2, ZeRO-3"),
        ({"tensor": 16}, INFINIBAND, "tensor parallelism over nodes"),
    ],
)
def test_what_nobody_published_has_a_range_of_a_factor_of_two(
    layout: dict[str, object], network: Network, doubt: str
) -> None:
    found = speed(LAYOUT._replace(**layout), network=network)  # type: ignore[arg-type]
    assert not found.validated
    assert doubt in " ".join(found.doubts)
    assert found.step_seconds.high == pytest.approx(2 * found.step_seconds.mid)
    assert found.step_seconds.low == pytest.approx(found.step_seconds.mid / 2)


def test_fine_experts_over_nodes_are_a_guess_and_coarse_ones_inside_are_extrapolated() -> None:
    fine = GPT._replace(experts=Experts(128, 8, 768))
    over = speed(LAYOUT._replace(expert=16), fine)
    assert "experts over several nodes" in over.doubts[0]
    assert over.step_seconds.high == pytest.approx(2 * over.step_seconds.mid)
    coarse = speed(LAYOUT._replace(expert=8), GPT._replace(experts=Experts(8, 2, 8192)))
    assert coarse.doubts == ("few published measurements of a mixture of experts",)
    assert coarse.step_seconds.high < 1.5 * coarse.step_seconds.mid


def test_a_gpu_near_to_the_measured_ones_is_extrapolated() -> None:
    h200 = speed(gpu="H200-141")
    assert h200.doubts == (
        "no published measurement of H200: estimated as an H100 with faster memory",
    )
    assert h200.step_seconds.mid < speed().step_seconds.mid
    assert speed(gpu="B200-180").doubts == ("one publication alone measured B200",)


def test_a_gpu_without_measurements_is_a_guess() -> None:
    found = speed(gpu="L40S-48")
    assert found.doubts == ("no published measurement ran on a GPU such as L40S-48",)
    assert found.nearest == ()


def test_offloading_has_no_number() -> None:
    gpu = find_gpu("A100-80")
    assert gpu
    layout = LAYOUT._replace(offload="optimizer")
    assert estimate_speed(GPT, layout, gpu, INFINIBAND) is None


def test_an_unknown_network_between_nodes_has_no_number() -> None:
    gpu = find_gpu("A100-80")
    assert gpu
    assert estimate_speed(GPT, LAYOUT, gpu, Network(0)) is None
    assert estimate_speed(GPT, LAYOUT._replace(gpus=8), gpu, Network(0))


def test_every_layout_has_a_time_on_every_gpu() -> None:
    """Also on GPUs without NVLink, and with experts."""
    for name in ("V100-16", "A10G-24", "L40S-48", "H200-141", "GB200-186", "T4-16"):
        for change in (
            {},
            {"pipeline": 2, "tensor": 2, "gpus": 8},
            {"zero": 3, "zero_group": 8, "engine": "fsdp"},
            {"precision": "fp8", "context": 2, "recompute": "selective", "flash": False},
        ):
            layout = LAYOUT._replace(**change)  # type: ignore[arg-type]
            assert 0.01 < speed(layout, gpu=name).step_seconds.mid < 1000
            experts = GPT._replace(experts=Experts(8, 2, 8192))
            assert speed(layout._replace(expert=8), experts, name).step_seconds.mid < 1000


def test_limits_are_the_three_largest_parts_with_what_helps() -> None:
    limits = speed(LAYOUT._replace(pipeline=8, global_batch=16)).limits
    assert len(limits) == 3
    assert [part.seconds for part in limits] == sorted((p.seconds for p in limits), reverse=True)
    bubble = next(part for part in limits if part.key == "bubble")
    assert "more micro batches" in bubble.advice
    assert str(bubble).startswith("pipeline bubble ")


def test_nearest_rows_name_their_source_and_are_of_the_same_family() -> None:
    found = speed().nearest
    assert len(found) == 3
    for row in found:
        assert "H100-80" in row.configuration
        assert row.source in str(row)
        assert row.url
        assert 0.1 < row.mfu < 0.9


def test_layouts_within_the_error_of_the_model_are_tied() -> None:
    assert tied([1.0, 1.09, 1.2]) == [True, True, False]
    assert tied([]) == []


def test_gpus_are_found_by_name_or_memory() -> None:
    a100 = find_gpu("A100", 39.6)
    assert a100
    assert (a100.name, a100.memory_bandwidth) == ("A100-40", 1.555e12)
    assert find_gpu("A100-80") == find_gpu("A100", 80)
    h100 = find_gpu("H100-96")
    assert h100
    assert h100.family == "H100-500W"
    assert find_gpu("GTX 1080") is None
    assert find_gpu("K80") is None
