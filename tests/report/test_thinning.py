"""Records of long logs: how many are kept, and what each of them says."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest
from made_runs import log_of

from clusterjobs.report.logs.forms import Rows
from clusterjobs.report.logs.records import Event, Quantity, Window
from clusterjobs.report.logs.thinning import Thinned, merged
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, RecordedAttempt, Run

MOST = 100


def thinned(records: list[Window | Event], batch: int = 7) -> list[Window | Event]:
    kept = Thinned(MOST)
    for start in range(0, len(records), batch):
        kept.add(records[start : start + batch])
    return kept.records()


def windows(count: int) -> list[Window | Event]:
    return [Window(step, {"loss": 1 / step}) for step in range(1, count + 1)]


def test_short_logs_are_kept_as_they_are() -> None:
    assert thinned(windows(MOST)) == windows(MOST)


@pytest.mark.parametrize("count", [MOST + 1, 999, 5000, 100_000])
def test_the_start_of_a_long_log_is_kept_as_finely_as_its_end(count: int) -> None:
    steps = [one.step for one in thinned(windows(count)) if one.step]
    assert len(steps) <= MOST
    assert steps[-1] == count
    sizes = [after - before for before, after in itertools.pairwise([0, *steps])]
    usual, times = Counter(sizes).most_common(1)[0]
    assert max(sizes) == usual
    assert times >= 0.75 * len(sizes)


def test_no_spike_is_lost() -> None:
    records = windows(5000)
    records[3210] = Window(3211, {"loss": 99.0})
    found = [one for one in thinned(records) if isinstance(one, Window)]
    assert max((one.high or one.values)["loss"] for one in found) == 99
    assert min((one.low or one.values)["loss"] for one in found) == 1 / 5000


def test_windows_are_not_merged_over_events_and_restarts() -> None:
    again = [Window(step, {"loss": 2.0}) for step in range(151, 300)]
    records = [*windows(200), Event("attempt", value=2), *again, Window(100, {"loss": 4.0})]
    found = thinned(records)
    place = next(place for place, one in enumerate(found) if isinstance(one, Event))
    assert [one.step for one in (found[place - 1], found[-2], found[-1])] == [200, 299, 100]
    behind = [one for one in found[place + 1 : -1] if isinstance(one, Window)]
    assert {one.values["loss"] for one in behind} == {2.0}


def test_records_that_cannot_be_merged_are_kept_and_not_tried_again_for_each() -> None:
    records: list[Window | Event] = [Window(2 - place % 2, {}) for place in range(200_000)]
    found = thinned(records)
    assert len(found) >= len(records) / 2


def test_means_are_by_the_number_of_steps() -> None:
    found = merged([Window(1, {"loss": 4.0, "skipped": 1.0}), Window(4, {"loss": 2.0})], [1, 3])
    assert found == Window(
        4,
        {"loss": 2.5, "skipped": 1.0},
        4,
        None,
        {"loss": 2.0, "skipped": 1.0},
        {"loss": 4.0, "skipped": 1.0},
        2,
    )


def test_what_is_no_rate_is_not_averaged() -> None:
    first = Window(1, {"time": 10.0, "memory_gib": 5.0, "learning_rate": 0.1, "skipped": 1.0})
    second = Window(2, {"time": 20.0, "memory_gib": 4.0, "learning_rate": 0.2, "skipped": 1.0})
    assert merged([first, second], [1, 1]).values == {
        "time": 20.0,
        "memory_gib": 5.0,
        "learning_rate": 0.2,
        "skipped": 2.0,
    }


def test_a_loss_that_is_no_number_stays_one() -> None:
    found = merged([Window(1, {"loss": math.nan}), Window(2, {"loss": 1.0})], [1, 1])
    assert math.isnan(found.values["loss"])


def test_extremes_of_merged_windows_are_those_of_all() -> None:
    each = [
        merged([Window(step, {"loss": float(step)}) for step in (a, a + 1)], [1, 1]) for a in (1, 3)
    ]
    found = merged(each, [2, 2])
    assert (found.low["loss"], found.high["loss"], found.values["loss"]) == (1, 4, 2.5)


def runs(records: list[Window | Event], attempts: int = 1, batch: int = 8) -> tuple[Run, Run]:
    """Of all records, and of those that are kept of them."""
    job = Job(batch=batch, attempts=tuple(RecordedAttempt(n + 1) for n in range(attempts)))
    kept = Thinned(MOST)
    whole = log_of(records)
    for start in range(0, len(records), 10):
        kept.add(whole.records[start : start + 10])
    log = whole._replace(records=tuple(kept.records()))
    assert len(log.records) < len(records) / 5
    return make_run(whole, job), make_run(log, job)


def timed(count: int, name: Quantity = "seconds", **others: float) -> list[Window | Event]:
    """Windows of 1, but for each N-th one: `every_N=value`."""
    every = {int(key.removeprefix("every_")): value for key, value in others.items()}
    return [
        Window(step, {name: next((v for n, v in every.items() if step % n == 0), 1.0)})
        for step in range(1, count + 1)
    ]


@pytest.mark.parametrize("every", [3, 8, 10, 100])
def test_slow_steps_of_a_long_log_stay_slow(every: int) -> None:
    exact, found = runs(timed(20_000, **{f"every_{every}": 4.0}))
    assert found.goodput == pytest.approx(exact.goodput, rel=0.01)
    slow = found.lost_seconds["slow"] + found.lost_seconds["warm_up"]  # which is one window
    assert slow == pytest.approx(exact.lost_seconds["slow"], rel=0.02)
    assert found.rates["seconds"].median == 1


def test_a_step_behind_a_save_is_that_of_the_save() -> None:
    records: list[Window | Event] = []
    for step in range(1, 20_001):
        if step % 500 == 1:
            records.append(Event("saving", step - 1))
        records.append(Window(step, {"seconds": 26.0 if step % 500 == 1 else 1.0}))
    exact, found = runs(records)
    assert exact.lost_seconds["saving"] > 900
    assert found.lost_seconds == pytest.approx(exact.lost_seconds)


def test_rates_are_averaged_as_times() -> None:
    exact, found = runs(timed(20_000, "samples_per_second", every_8=0.02))
    assert found.paid_seconds == pytest.approx(exact.paid_seconds, rel=0.001)
    assert found.goodput == pytest.approx(exact.goodput, rel=0.01)


@pytest.mark.parametrize("wrong", [-3.0, math.inf, math.nan, 1e300])
def test_impossible_values_spoil_no_others(wrong: float) -> None:
    _, found = runs(timed(20_000, every_40=wrong))
    assert found.paid_seconds == pytest.approx(20_000, rel=0.001)
    assert any("in line 120, and 497 more" in note for note in found.notes)


def test_a_loss_that_is_no_number_is_merged_with_its_like_alone() -> None:
    records: list[Window | Event] = [
        Window(step, {"seconds": 1.0, "loss": math.nan if step % 50 == 10 else 3.0})
        for step in range(1, 20_001)
    ]
    exact, found = runs(records)
    assert "in 400 lines of the log, first at step 10." in exact.notes[0]
    assert "in 400 lines of the log, first at or before step " in found.notes[0]
    assert sum(one.lines for one in found.windows if one.values["loss"] == 3) == 19_600


def test_repeated_steps_are_counted_exactly() -> None:
    first, again = timed(5003), timed(9001)[4321:]
    exact, found = runs([*first, Event("attempt", value=2), *again], attempts=2)
    assert exact.lost_steps == found.lost_steps == 5003 - 4321
    assert found.paid_seconds == pytest.approx(exact.paid_seconds)


def test_neighbours_of_all_kinds_are_bounded_too() -> None:
    losses = (3.0, math.nan, math.inf, -math.inf)
    records: list[Window | Event] = [
        Window(step, {"seconds": 1.0 + step % 2, "loss": losses[step % 4]})
        for step in range(1, 100_001)
    ]
    assert len(thinned(records)) <= 3 * MOST


@pytest.mark.parametrize("quantity", ["seconds", "samples_per_second", "loss"])
@pytest.mark.parametrize("gap", [1, 10])
def test_columns_are_merged_as_windows_are(quantity: Quantity, gap: int) -> None:
    chance = random.Random(gap)
    steps = [gap * step + (step % 97 == 0 and gap > 1) for step in range(1, 40_000)]
    values = [3.0 if step % 501 == 0 else chance.uniform(1, 1.1) for step in range(len(steps))]
    rows = Rows(steps, {quantity: values, "skipped": [1.0] * len(steps)})
    found = []
    for add in (
        lambda thinned, part: thinned.add(part.windows()),
        lambda thinned, part: thinned.add_rows(part),
    ):
        thinned = Thinned(1000)
        for start in range(0, len(steps), 800):
            add(thinned, rows.part(start, start + 800))
        found.append([one for one in thinned.records() if isinstance(one, Window)])
    of_windows, of_rows = found
    for one in found:
        assert sum(window.steps or 0 for window in one) == steps[-1]
        assert sum(window.lines for window in one) == len(steps)
        assert sum(window.values["skipped"] for window in one) == len(steps)
    assert len(of_rows) < 2 * len(of_windows)
    for name, extreme in (("low", min), ("high", max)):
        ends = [
            extreme(getattr(one, name).get(quantity, one.values[quantity]) for one in own)
            for own in found
        ]
        assert ends[0] == ends[1]
    if quantity == "seconds":  # slow steps are merged with their like alone
        slow = sum(one.lines for one in of_rows if one.values[quantity] > 2)
        assert slow == sum(value > 2 for value in values)
