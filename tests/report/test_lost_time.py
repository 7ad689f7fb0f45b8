"""Useful and lost time of a run add up to what was paid for."""

from __future__ import annotations

import math
import random
from typing import get_args

import pytest
from made_runs import all_seconds, attempt, lengths, lost_in, run_of, window, windows

from clusterjobs.report.logs.records import Event, Window
from clusterjobs.report.run import Job, LostTime, RecordedAttempt


def test_goodput_is_the_time_of_kept_steps() -> None:
    records = [*windows(range(1, 31)), attempt(2), *windows(range(21, 61))]
    run = run_of(records, Job(attempts=lengths(40, 50)))
    assert run.paid_seconds == 90
    assert run.goodput == pytest.approx(60 / 90)
    assert lost_in(run) == {"starting": 10, "restart": 10, "repeated": 10}


def test_staging_takes_no_longer_than_what_is_left_of_the_attempt() -> None:
    records = [Event("staging", value=500), *windows(range(1, 101))]
    run = run_of(records, Job(attempts=lengths(150)))
    assert lost_in(run) == {"staging": 50}


def test_staging_and_preflight_are_no_start() -> None:
    records = [Event("staging", value=30), Event("preflight", value=5), *windows(range(1, 21))]
    run = run_of(records, Job(attempts=lengths(60)))
    assert lost_in(run) == {"staging": 30, "preflight": 5, "starting": 5}


@pytest.mark.parametrize(("batch", "is_said"), [(None, True), (32, False)])
def test_without_times_of_steps_it_is_said_why_there_is_no_goodput(
    batch: int | None, is_said: bool
) -> None:
    records = [Window(step, {"samples_per_second": 32.0}) for step in range(1, 21)]
    run = run_of(records, Job(attempts=lengths(25), batch=batch))
    assert (run.goodput is None) is is_said
    assert any("so the goodput is unknown" in note for note in run.notes) is is_said


def test_waiting_for_nodes_costs_nothing() -> None:
    known = RecordedAttempt(1, "completed", 20, began=1000, submitted=400)
    run = run_of(windows(range(1, 21)), Job(attempts=(known,)))
    assert lost_in(run) == {"queue": 600}
    assert run.goodput == 1


def test_a_clock_that_was_set_back_gives_no_negative_wait() -> None:
    known = RecordedAttempt(1, "completed", 20, began=400, submitted=1000)
    run = run_of(windows(range(1, 21)), Job(attempts=(known,)))
    assert run.attempts[0].queue_seconds == 0


def test_an_attempt_of_unknown_length_counts_with_its_steps() -> None:
    records = [*windows(range(1, 11)), attempt(2), *windows(range(11, 21))]
    run = run_of(records, Job(attempts=lengths(12, None)))
    assert run.paid_seconds == 22
    assert run.goodput == pytest.approx(20 / 22)
    assert any("how long attempt 2 lasted" in note for note in run.notes)


@pytest.mark.parametrize(
    ("kinds", "lost"),
    [(("saving",), "saving"), (("validation",), "validation"), ((), "slow")],
)
def test_a_slow_window_is_explained_by_what_happened_in_it(
    kinds: tuple[str, ...], lost: str
) -> None:
    records: list[Window | Event] = [*windows(range(100, 1100, 100))]
    records += [Event(kind, 1000) for kind in kinds]  # type: ignore[arg-type]
    records += [window(1100, 3.0), *windows(range(1200, 2100, 100))]
    run = run_of(records)
    assert lost_in(run) == {lost: pytest.approx(200)}
    assert all_seconds(run) == pytest.approx(run.paid_seconds)


def test_a_slow_start_is_a_warm_up() -> None:
    run = run_of([window(1, 31.0), *windows(range(2, 12))])
    assert lost_in(run) == {"warm_up": pytest.approx(30)}
    assert run.steady_from == 1
    assert run.rates["seconds"].count == 10


def test_time_of_saves_outside_of_steps_is_no_start() -> None:
    records = [*windows(range(1, 11)), Event("saved", 10, 4.0), *windows(range(11, 21))]
    run = run_of(records, Job(attempts=lengths(30)))
    assert lost_in(run) == {"saving": 4, "starting": 6}


def test_the_forward_pass_waits_for_data() -> None:
    late = {"forward_seconds": 2.4, "backward_seconds": 0.6}
    usual = {"forward_seconds": 0.3, "backward_seconds": 0.6}
    records = [window(step, 3.1, **late) for step in range(1, 6)]
    records += [window(step, 1.0, **usual) for step in range(6, 26)]
    run = run_of(records)
    assert run.lost_seconds["data_wait"] == pytest.approx(5 * 2.1)
    assert run.lost_seconds["warm_up"] == pytest.approx(0)
    assert any("waiting for data" in one for one in run.advice)


def test_time_adds_up_whatever_the_noise() -> None:
    noise = random.Random(1)
    for _ in range(50):
        records: list[Window | Event] = []
        first = 1
        for number in range(1, noise.randint(2, 5)):
            last = first + noise.randint(1, 60)
            records += [attempt(number), Event("saving", first + 3)]
            records += [
                window(step, noise.lognormvariate(0, 0.6), data_seconds=noise.random())
                for step in range(first, last)
            ]
            first = noise.randint(max(1, last - 15), last)
        attempts = lengths(*[noise.choice([None, 500.0]) for _ in range(4)])
        run = run_of(records, Job(attempts=attempts))
        if run.goodput is not None:
            assert 0 <= run.goodput <= 1
            assert all_seconds(run) == pytest.approx(run.paid_seconds)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_an_impossible_value_changes_no_other(wrong: float) -> None:
    values = {"skipped": wrong, "memory_gib": wrong, "samples_per_second": wrong}
    records = [window(step, wrong if step == 7 else 1.0, **values) for step in range(1, 21)]
    run = run_of(records)
    assert run.rates["seconds"].median == 1
    assert run.peak_memory_gib is None
    assert run.skipped_steps == 0
    assert f"Left out, since no seconds can be that: {wrong:g} s in line 7." in run.notes


def test_a_loss_that_is_no_number_is_named() -> None:
    records = [window(step, loss=math.nan if step > 8 else 2.0) for step in range(1, 11)]
    notes = run_of([*records, window(11, loss=math.inf)]).notes
    assert any("infinite in 1 line of the log, first at step 11" in note for note in notes)
    assert any("not a number in 2 lines of the log, first at step 9" in note for note in notes)


def test_skipped_steps_are_not_useful() -> None:
    records = [
        window(step, 1.0, 10, skipped=5.0 if step == 50 else 0.0) for step in range(10, 101, 10)
    ]
    run = run_of(records)
    assert lost_in(run) == {"skipped": 5}
    assert run.goodput == pytest.approx(0.95)


def test_a_run_that_skips_every_step_trains_nothing() -> None:
    run = run_of([window(step, 1.0, 10, skipped=10.0) for step in range(10, 101, 10)])
    assert run.goodput == 0
    assert any("nothing was trained" in note for note in run.notes)


def test_steps_longer_than_their_attempt_give_no_goodput() -> None:
    """The log times every tenth step, which is slow."""
    run = run_of(windows(range(10, 201, 10)), Job(attempts=lengths(150)))
    assert run.goodput is None
    assert any("attempt 1 would take longer" in note for note in run.notes)


def test_the_rounding_of_an_attempt_gives_no_goodput_above_1() -> None:
    run = run_of(windows(range(1, 21)), Job(attempts=lengths(19)))
    assert run.goodput == 1


def test_what_nothing_shows_is_not_0() -> None:
    """A bare log knows no attempts, no saves, and no loader."""
    assert set(run_of(windows(range(1, 21))).lost_seconds) == {"warm_up", "slow", "repeated"}
    attempts = (RecordedAttempt(1, "completed", 30, began=1000, submitted=1000),)
    timed = [window(step, data_seconds=0.0, skipped=0.0) for step in range(1, 21)]
    events = [Event("saving", 10), Event("validation", 10)]
    run = run_of([*timed, *events], Job(attempts=attempts))
    assert set(run.lost_seconds) == set(get_args(LostTime))
    assert run.lost_seconds["queue"] == run.lost_seconds["saving"] == 0


def test_a_time_stamp_that_is_infinite_gives_no_time_of_a_step() -> None:
    stamps = [1e9 + 100, -math.inf, 1e9 + 102.5, 1e9 + 103.5, 1e9 + 104.5]
    records = [Window(step, {"time": time}) for step, time in enumerate(stamps, 1)]
    found = [one.values.get("seconds") for one in run_of(records).windows]
    assert found == [None, 1.25, 1.25, 1.0, 1.0]


def test_where_the_log_does_not_time_steps_no_time_is_called_a_start() -> None:
    rates = [Window(step, {"samples_per_second": 64.0}, 1) for step in range(1, 21)]
    run = run_of(rates, Job(attempts=lengths(20)))
    assert "starting" not in run.lost_seconds
    assert "starting" not in run.attempts[0].lost_seconds
    assert run.goodput is None


def test_an_attempt_without_steps_is_a_start_alone() -> None:
    run = run_of([], Job(attempts=lengths(20)))
    assert lost_in(run) == {"starting": 20}
