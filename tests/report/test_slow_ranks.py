"""Ranks that are slower than the others, where the log has lines of all of them."""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Callable

import pytest

from clusterjobs.cli import main
from clusterjobs.report.logs.lines import RankTimes
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import SlowRank, Window

STEPS, RANKS = 60, 8


def slow_ranks(seconds: Callable[[int, int], float], steps: int = STEPS) -> tuple[SlowRank, ...]:
    times = RankTimes()
    for step in range(1, steps + 1):
        for rank in range(RANKS):
            times.add(Window(step, {"seconds": seconds(step, rank)}, None, rank))
    return times.slow()


def test_a_rank_that_is_always_slower_is_found_with_how_much() -> None:
    noise = random.Random(1)
    (found,) = slow_ranks(lambda _, rank: (1.2 if rank == 5 else 1.0) + noise.uniform(-0.02, 0.02))
    assert found.rank == 5
    assert 1.15 < found.ratio < 1.25
    assert found.often > 0.95
    assert (found.steps, found.what) == (STEPS, "a step")


def test_noise_blames_no_rank() -> None:
    for seed in range(20):
        noise = random.Random(seed)
        assert slow_ranks(lambda _, __, noise=noise: noise.lognormvariate(0, 0.3)) == ()


def test_a_rank_that_was_slow_once_is_not_slow() -> None:
    assert slow_ranks(lambda step, rank: 9.0 if (step, rank) == (7, 2) else 1.0) == ()


def test_a_difference_below_5_percent_is_none() -> None:
    assert slow_ranks(lambda _, rank: 1.03 if rank == 2 else 1.0) == ()


def test_fewer_than_ten_steps_say_nothing() -> None:
    assert slow_ranks(lambda _, rank: 2.0 if rank == 2 else 1.0, steps=9) == ()


def test_the_part_of_a_step_that_a_rank_does_alone_is_compared_first() -> None:
    times = RankTimes()
    for step in range(1, 21):
        for rank in range(4):
            forward = 0.5 if rank == 1 else 0.3
            times.add(Window(step, {"seconds": 1.0, "forward_seconds": forward}, None, rank))
    assert [(one.rank, one.what) for one in times.slow()] == [(1, "forward")]


def test_labels_of_a_log_say_which_rank_printed_a_line() -> None:
    lines = [
        f"{rank}: step {step} loss 2.5 samples/s {80 if rank == 3 else 100}\n"
        for step in range(1, 31)
        for rank in range(4)
    ]
    log = read_log(["".join(lines).encode()])
    assert [one.rank for one in log.slow_ranks] == [3]
    assert len([one for one in log.records if isinstance(one, Window)]) == 30


def test_the_command_names_rank_and_node(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (
        f"{rank}: step {step} loss 2.5 samples/s {80 if rank == 3 else 100}\n"
        for step in range(1, 31)
        for rank in range(4)
    )
    (tmp_path / "job.log").write_text("".join(lines))
    derived = '{"world_size": 4, "ranks_per_node": 2}'
    (tmp_path / "plan.json").write_text(f'{{"name": "slow", "derived": {derived}}}')
    assert main.run(["report", str(tmp_path), "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["rows"] == [["3", "2 of 2", "25.0 %", "100.0 %", "a step"]]
