"""GPT of 345 M parameters on 8 A100, whose first windows wait for data: what its logs should say.

The numbers are those of a published log of Megatron-DeepSpeed; the windows between those that are
quoted from it are made up, with the same medians and sums.
"""

from __future__ import annotations

import pytest

from clusterjobs.models.records import Gpu, Layout, ModelShape
from clusterjobs.report.compare import scaling
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, Run
from clusterjobs.report.values import efficiency_of

MODEL = ModelShape(24, 1024, 16, 16, 64, 4096, 1024, 50_304)
LAYOUT = Layout(8, 8, 8, 64, "megatron-deepspeed", recompute="full", flash=False, precision="fp16")
A100 = Gpu("A100-40", "A100", 312e12, None, 1.555e12, 300e9, 40)
USUAL = [349.5, 359.8, 365.2, 340.1, 380.4, 334.0, 359.8, 393.0, 355.0, 359.8]
# Windows 1 to 11; of the last one 394 ms are saving and validation.
WAITING = [9757.6, 6312.0, 2150.4, 800.0, 700.0, 600.0, 550.0, 500.0, 450.0, 450.0, 754.0]


def line(step: int, batch: int, ms: float, skipped: int = 0) -> str:
    return (
        f" iteration {step:8d}/  500000 | consumed samples: {step * batch:12d} | "
        f"elapsed time per iteration (ms): {ms:.1f} | learning rate: 1.070E-04 | "
        f"global batch size: {batch:5d} | lm loss: 4.261599E+00 | loss scale: 131072.0 | "
        f"grad norm: 0.774 | actual seqlen:  1024 | number of skipped iterations: {skipped:3d} | "
        f"number of nan iterations:   0 | samples per second: {1000 * batch / ms:.3f} | "
        "TFLOPs: 73.31 |\n"
    )


def text_of_8_gpus() -> str:
    lines = []
    for number in range(1, 31):
        step, ms = number * 100, USUAL[number % 10]
        backward = 193 + number % 26
        forward = 92.0
        if number <= 11:
            ms = WAITING[number - 1]
            forward = max(92.0, ms - backward - 40 - 394 * (number == 11))
        if number == 21:
            ms = 733.0
        lines.append(line(step, 64, ms, 15 if number == 1 else 0))
        lines.append(f"time (ms) | forward-compute: {forward} | backward-compute: {backward}.0 |\n")
        if number == 1:
            lines.append(
                "[Rank 0] (after 100 iterations) memory (MB) | allocated: 6787.1 | "
                "max allocated: 9572.9 | reserved: 12262.0 | max reserved: 12262.0\n"
            )
        if number in (10, 20):
            lines.append(
                f" validation loss at iteration {step} | lm loss value: 5.2E+00 |\n"
                f"  saving checkpoint at iteration {step:7d} to /checkpoints\n"
            )
    return "".join(lines)


def run_of(text: str, gpus: int, batch: int) -> Run:
    layout = LAYOUT._replace(gpus=gpus, gpus_per_node=gpus, global_batch=batch)
    job = Job(f"{gpus} GPUs", gpus=gpus, nodes=1, batch=batch, model=MODEL, layout=layout, gpu=A100)
    return make_run(read_log([text.encode()]), job)


@pytest.fixture(scope="module")
def on_8() -> Run:
    return run_of(text_of_8_gpus(), 8, 64)


@pytest.mark.parametrize(("rate", "gpus", "tflops"), [(183.128, 8, 73.31), (12.378, 1, 39.64)])
def test_the_printed_tflops_are_hfu_and_mfu_is_beside_them(
    rate: float, gpus: int, tflops: float
) -> None:
    found = efficiency_of(rate, MODEL, LAYOUT, A100, gpus)
    assert found.tflops_per_gpu_hfu == pytest.approx(tflops, abs=0.005)
    assert found.hfu == pytest.approx(tflops / 312, abs=1e-4)
    assert found.tflops_per_gpu_mfu < 0.8 * tflops
    assert "HFU adds" in found.formula


def test_mfu_of_the_8_gpus() -> None:
    """18.2 % with every matrix counted."""
    found = efficiency_of(183.128, MODEL, LAYOUT, A100, 8)
    assert found.mfu == pytest.approx(0.182, abs=0.0005)
    assert found.hfu == pytest.approx(0.235, abs=0.0005)


def test_without_recomputation_there_is_no_hfu() -> None:
    found = efficiency_of(183.128, MODEL, LAYOUT._replace(recompute="none"), A100, 8)
    assert found.tflops_per_gpu_hfu is None
    assert found.hfu is None


def test_the_steady_state_begins_behind_the_windows_that_wait(on_8: Run) -> None:
    assert on_8.steady_from == 1100
    assert on_8.rates["seconds"].median == pytest.approx(0.3598)
    assert on_8.rates["samples_per_second"].median == pytest.approx(177.9, abs=0.1)
    assert on_8.rates["tokens_per_second"].median == pytest.approx(182_000, rel=0.002)
    assert on_8.efficiency is not None
    assert on_8.efficiency.tflops_per_gpu_hfu == pytest.approx(71.2, abs=0.05)
    assert on_8.efficiency.hfu == pytest.approx(0.228, abs=0.0005)


def test_most_of_the_lost_time_is_waiting_for_data(on_8: Run) -> None:
    lost = on_8.lost_seconds
    assert on_8.paid_seconds is not None
    assert on_8.goodput is not None
    everything = on_8.paid_seconds * (1 - on_8.goodput)
    assert sum(lost.values()) == pytest.approx(everything)
    assert on_8.mean_samples_per_second == pytest.approx(63.5, abs=0.05)
    assert on_8.paid_seconds == pytest.approx(3023, abs=1)
    assert everything - lost["skipped"] == pytest.approx(1943, rel=0.005)
    assert lost["data_wait"] > 0.9 * everything
    assert lost["saving"] == pytest.approx(39.4 + 37.3, abs=1)
    assert "waiting for data" in on_8.advice[0]


def test_the_rest_of_what_the_log_shows(on_8: Run) -> None:
    assert on_8.skipped_steps == 15
    assert on_8.peak_memory_gib == pytest.approx(9572.9 / 1024)
    assert any("larger micro batch" in one for one in on_8.advice)
    assert any("15 steps changed no weights" in one for one in on_8.notes)


def test_three_falling_windows_are_no_steady_state_and_no_base_of_scaling(on_8: Run) -> None:
    falling = "".join(
        line(100 * place, 8, ms) for place, ms in enumerate((2994.9, 835.0, 646.3), 1)
    )
    on_1 = run_of(falling, 1, 8)
    assert "too few lines" in on_1.no_steady_state
    assert on_1.efficiency is None
    table = scaling([on_1, on_8])
    assert table is not None
    assert table.rows == ()
    (naive,) = [note for note in table.notes if "1.85" in note]
    assert "More than 1 is impossible" in naive
    assert not any("185 %" in note for note in table.notes)
