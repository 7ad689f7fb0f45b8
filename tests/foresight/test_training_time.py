"""Total time, checkpoints and cost: by hand, and by what was published."""

from __future__ import annotations

import math

import pytest

from clusterjobs.foresight.formulas.training_time import (
    FAILURES,
    GIB,
    START_SECONDS,
    HourlyPrice,
    Saves,
    best_interval,
    checkpoint_bytes,
    cost_of,
    loss_share,
    save_seconds,
    training_time,
)
from clusterjobs.models.records import Layout, Range
from clusterjobs.runs.training import Length

MEGATRON = Layout(512, 8, 1, 1536, "megatron-core")
FSDP = MEGATRON._replace(engine="fsdp")
PRICE = HourlyPrice(10.0, "us-east-1", "ONDEMAND", "2026-11", "test")


def exactly(value: float) -> Range:
    return Range(value, value, value)


def no_saves(interval: float | None = None, save: float = 0.0) -> Saves:
    steps = None if interval is None else 10
    seconds = None if interval is None else exactly(interval)
    return Saves(1.0, exactly(save), steps, seconds, exactly(100.0), "test")


@pytest.mark.parametrize(
    ("tokens", "samples", "steps", "expected"),
    [
        (300e9, None, None, 95_368),  # GPT-3: 300e9 / (1536 x 2048), the last step is not full
        (None, 146_484_375, None, 95_368),
        (None, None, 500_000, 500_000),
        (1.0, None, None, 1),
    ],
)
def test_length_in_tokens_samples_or_steps(
    tokens: float | None, samples: float | None, steps: float | None, expected: int
) -> None:
    assert Length(tokens, samples, steps, "").steps_with(1536, 2048) == expected


@pytest.mark.parametrize(
    ("parameters", "layout", "gib"),
    [
        (8_030_261_248, MEGATRON, 105),  # Llama-3.1-8B, NeMo
        (15.6e9, MEGATRON, 204),  # Nemotron-15B
        (174.6e9, MEGATRON, 2.3 * 1024),  # GPT-3 175B
        (29.98e9, FSDP, 336),  # mpt-30b, llm-foundry
        (64.9e9, FSDP, 725),  # mpt-70b
    ],
)
def test_published_sizes_of_checkpoints(parameters: float, layout: Layout, gib: float) -> None:
    assert checkpoint_bytes(parameters, layout) / GIB == pytest.approx(gib, rel=0.04)


def test_optimizers_with_less_state_save_less() -> None:
    adam = checkpoint_bytes(1e9, MEGATRON)
    assert adam == 14e9
    assert checkpoint_bytes(1e9, MEGATRON._replace(optimizer="sgd")) == 10e9
    assert checkpoint_bytes(1e9, FSDP._replace(precision="pure_bf16")) == 6e9


def test_the_slower_of_file_system_and_network_limits_a_save() -> None:
    disk, why = save_seconds(100e9, 4, 400.0, 2e9)
    assert (disk.low, why) == (50.0, "the file system's throughput")
    network, why = save_seconds(100e9, 1, 8.0, 2e9)
    assert (network.low, why) == (100.0, "the network of the nodes")
    unknown, why = save_seconds(100e9, 4, 400.0, None)
    assert why.startswith("assumed: ")
    assert unknown.high / unknown.low == 40


def test_the_best_interval_loses_least() -> None:
    """Young's formula is the minimum of the share that saves and failures take."""
    save, between = 60.0, 3 * 3600.0
    best = best_interval(exactly(save), exactly(between)).mid
    assert best == pytest.approx(math.sqrt(2 * save * between))
    least = loss_share(save, best, between)
    assert all(loss_share(save, best * factor, between) > least for factor in (0.5, 0.9, 1.1, 2))


def test_failures_of_a_published_run() -> None:
    """Llama 3: 419 unexpected stops in 54 days on 16,384 H100."""
    days = 54 * 86_400 / FAILURES.mean_seconds(16_384).mid
    assert days == pytest.approx(419, rel=0.01)


def test_time_is_the_sum_of_its_parts() -> None:
    found = training_time(1000, exactly(2.0), 8, no_saves(200.0, 5.0), None)
    assert found.training == exactly(2000.0)
    assert found.saving.mid == 10 * 5.0  # a save each 200 s
    failures = (2000 + 50) / FAILURES.mean_seconds(8).mid
    assert found.lost.mid == pytest.approx(failures * (100 + START_SECONDS.mid))
    parts = (found.starts, found.training, found.saving, found.lost)
    assert found.seconds.mid == pytest.approx(sum(one.mid for one in parts))
    assert found.seconds.low < found.seconds.mid < found.seconds.high
    assert found.attempts is None


def test_a_time_limit_needs_attempts_that_each_start() -> None:
    day = 86_400
    found = training_time(10_000, exactly(60.0), 8, no_saves(3600.0, 0.0), day)  # 6.9 days
    assert found.attempts
    assert found.attempts.mid == 7
    assert found.starts.mid == 7 * START_SECONDS.mid
    short = training_time(10, exactly(60.0), 8, None, day)
    assert short.attempts == exactly(1.0)


def test_a_limit_shorter_than_a_start_still_gives_a_number() -> None:
    found = training_time(1000, exactly(1.0), 8, None, 60)
    assert found.attempts
    assert math.isfinite(found.seconds.high)


def test_cost_counts_all_nodes_and_the_idle_time_after_each_attempt() -> None:
    found = cost_of(exactly(3600.0), 4, PRICE, exactly(2.0))
    assert found.node_hours.mid == pytest.approx(4 * (3600 + 2 * 600) / 3600)
    assert found.usd.mid == pytest.approx(10 * found.node_hours.mid)
    assert found.price.shown() == "$10.00 per node and hour: us-east-1, ONDEMAND, 2026-11 (test)"
