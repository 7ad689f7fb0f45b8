"""Records of long logs: how many are kept, and what each of them says."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from clusterjobs.report.records import Event, Window
from clusterjobs.report.thinning import Thinned, merged

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
    assert max(one.high["loss"] for one in found) == 99
    assert min(one.low["loss"] for one in found) == 1 / 5000


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
    found = merged([Window(1, {"loss": 4.0, "skipped": 1.0}, 1), Window(4, {"loss": 2.0}, 3)])
    assert found == Window(
        4,
        {"loss": 2.5, "skipped": 1.0},
        4,
        None,
        {"loss": 2.0, "skipped": 1.0},
        {"loss": 4.0, "skipped": 1.0},
    )


def test_what_is_no_rate_is_not_averaged() -> None:
    first = Window(1, {"time": 10.0, "memory_gib": 5.0, "learning_rate": 0.1, "skipped": 1.0})
    second = Window(2, {"time": 20.0, "memory_gib": 4.0, "learning_rate": 0.2, "skipped": 1.0})
    assert merged([first, second]).values == {
        "time": 20.0,
        "memory_gib": 5.0,
        "learning_rate": 0.2,
        "skipped": 2.0,
    }


def test_a_loss_that_is_no_number_stays_one() -> None:
    found = merged([Window(1, {"loss": math.nan}), Window(2, {"loss": 1.0})])
    assert math.isnan(found.values["loss"])


def test_extremes_of_merged_windows_are_those_of_all() -> None:
    each = [merged([Window(step, {"loss": float(step)}) for step in (a, a + 1)]) for a in (1, 3)]
    found = merged(each)
    assert (found.low["loss"], found.high["loss"], found.values["loss"]) == (1, 4, 2.5)
