"""Which steps count, when later attempts repeat some."""

from __future__ import annotations

import pytest
from made_runs import attempt, run_of, window, windows

from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Event
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job


def test_steps_behind_the_checkpoint_are_lost() -> None:
    records = [*windows(range(1, 28)), attempt(2), *windows(range(21, 61))]
    run = run_of(records)
    assert [one.step for one in run.windows] == list(range(1, 61))
    assert [one.step for one in run.replaced] == list(range(21, 28))
    assert run.lost_steps == 7
    assert run.lost_seconds["repeated"] == 7
    assert [one.kept_steps for one in run.attempts] == [20, 40]
    assert run.attempts[1].resumed_step == 20


def test_a_restart_inside_an_attempt_is_seen_by_its_steps() -> None:
    run = run_of([*windows(range(1, 13)), *windows(range(11, 31))])
    assert len(run.attempts) == 1
    assert run.lost_steps == 2
    assert run.steps == 30


def test_a_window_that_the_checkpoint_cuts_in_two_is_split() -> None:
    """Windows of ten steps; the checkpoint was written at step 15."""
    resumed = [attempt(2), Event("resumed", 15), *windows(range(20, 61, 10))]
    run = run_of([*windows(range(10, 41, 10)), *resumed])
    assert run.lost_steps == 25
    assert sum(one.steps or 0 for one in run.windows) == 60
    assert run.attempts[1].resumed_step == 15


def test_a_checkpoint_loaded_behind_steps_belongs_to_the_next_start() -> None:
    run = run_of(
        [*windows(range(11, 21)), Event("resumed", 10), Event("resumed", 10), *windows([11, 12])]
    )
    assert run.lost_steps == 10
    assert run.steps == 12


def test_an_attempt_without_steps_repeats_none() -> None:
    run = run_of([*windows(range(1, 11)), attempt(2), attempt(3), *windows(range(11, 21))])
    assert run.lost_steps == 0
    assert [(one.number, one.kept_steps) for one in run.attempts] == [(1, 10), (2, 0), (3, 10)]


def test_steps_that_count_from_0_start_again_at_0() -> None:
    run = run_of([*windows(range(10)), attempt(2), *windows(range(10))])
    assert run.lost_steps == 10
    assert sum(one.steps or 0 for one in run.windows) == 10
    assert run.attempts[1].resumed_step == 0


def test_three_attempts_from_one_checkpoint() -> None:
    records = windows(range(1, 16))
    for number in (2, 3):
        records = [*records, attempt(number), *windows(range(11, 16))]  # type: ignore[list-item]
    run = run_of([*records, attempt(4), *windows(range(11, 21))])
    assert run.lost_steps == 15
    assert sum(one.steps or 0 for one in run.windows) == 20


def test_of_several_runs_in_one_log_the_last_is_shown_and_the_steps_are_unknown() -> None:
    runs = [windows(range(1, 30), seconds=float(number)) for number in range(1, 9)]
    run = run_of([window for one in runs for window in one])
    assert run.rates["seconds"].median == 8
    assert (run.steps, run.goodput, run.paid_seconds, run.lost_steps) == (None, None, None, 0)
    assert any("from the beginning 8 times" in note for note in run.notes)


def test_a_restart_behind_the_beginning_is_one_run() -> None:
    run = run_of([*windows(range(1, 10)), *windows(range(5, 10))])
    assert (run.steps, run.lost_steps) == (9, 5)


def test_a_recorded_restart_from_the_beginning_is_one_run() -> None:
    run = run_of([*windows(range(1, 10)), attempt(2), *windows(range(1, 20))])
    assert (run.steps, run.lost_steps) == (19, 9)
    assert any("restart without a checkpoint" in note for note in run.notes)


def test_a_log_without_steps_has_no_numbers() -> None:
    run = run_of([attempt(1)])
    assert run.steps is None
    assert run.goodput is None
    assert run.rates == {}


def test_one_window_gives_no_steady_state() -> None:
    run = run_of([window(1)])
    assert run.steps == 1
    assert run.goodput is None
    assert "too few lines" in run.no_steady_state


def test_a_checkpoint_between_two_lines_is_where_the_ranks_started_again() -> None:
    before = windows(range(10, 151, 10))
    run = run_of([*before, Event("resumed", 95), *windows(range(100, 201, 10))])
    assert run.lost_steps == 55
    assert sum(one.steps or 0 for one in run.windows) == 200


def test_an_attempt_in_between_that_starts_further_back_repeats_more() -> None:
    records = [*windows(range(1, 21)), attempt(2), *windows(range(6, 16)), attempt(3)]
    run = run_of([*records, *windows(range(11, 31))])
    assert [one.step for one in run.windows] == list(range(1, 31))
    assert run.lost_steps == 15 + 5


def test_an_attempt_on_slower_nodes_is_no_warm_up() -> None:
    run = run_of([*windows(range(1, 31), 1.3), attempt(2), *windows(range(31, 101))])
    assert run.rates["seconds"].count == 98  # without the first line of each attempt
    assert run.rates["seconds"].p90 == pytest.approx(1.3)


def test_a_checkpoint_that_another_rank_loads_later_is_no_further_restart() -> None:
    line = "0: iteration {}/ 500 | elapsed time per iteration (ms): 1000 | lm loss: 2 |\n"
    load = "{}: successfully loaded checkpoint from /x at iteration 50\n"
    again = [load.format(rank) for rank in (0, 1, 2)] + [line.format(51), load.format(3)]
    text = "".join([*map(line.format, range(1, 101)), *again, *map(line.format, range(52, 201))])
    run = make_run(read_log([text.encode()]), Job())
    assert (run.lost_steps, run.paid_seconds) == (50, 250)
    twice = make_run(read_log([(text + load.format(0) + line.format(51)).encode()]), Job())
    assert twice.lost_steps == 50 + 150
