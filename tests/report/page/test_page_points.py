"""Points of curves: none is lost that matters, and numbers that are none leave a gap."""

from __future__ import annotations

import math
import random

from clusterjobs.report.logs.records import Window
from clusterjobs.report.page.curves import Point, points_of, thin, with_gaps


def test_thinned_curve_keeps_every_spike() -> None:
    chance = random.Random(0)
    values = [chance.gauss(2, 0.1) for _ in range(50_000)]
    spikes = {100: 9.0, 25_000: 12.0, 25_040: -3.0, 49_999: 8.0}
    for at, value in spikes.items():
        values[at] = value
    found = thin([Point(step, value) for step, value in enumerate(values)], 2_000)
    assert len(found.steps) == len(found.values) == len(found.low) == len(found.high) == 1_000
    assert set(spikes.values()) <= {*found.low, *found.high}
    assert found.steps == sorted(set(found.steps))
    assert (found.steps[0], found.steps[-1]) == (0, 49_999)
    assert all(1.5 < value < 2.5 for value in found.values if value is not None)


def test_few_points_stay_as_they_are() -> None:
    points = [Point(1, 1.0), Point(2, None), Point(5, 3.0)]
    assert thin(points, 3) == ([1, 2, 5], [1.0, None, 3.0], [], [])


def test_thinned_curve_has_a_gap_where_most_values_are_no_numbers() -> None:
    points = [Point(step, None if 400 <= step < 600 else 1.0) for step in range(1_000)]
    found = thin(points, 20)
    assert found.values == [1.0] * 4 + [None] * 2 + [1.0] * 4


def test_values_that_are_no_numbers_become_gaps() -> None:
    windows = [
        Window(step, {"loss": value}) for step, value in ((1, 2.0), (2, math.nan), (3, math.inf))
    ]
    assert points_of(windows, "loss") == [(1, 2.0), (2, None), (3, None)]


def test_merged_window_gives_its_extremes() -> None:
    window = Window(300, {"loss": 2.0}, 300, low={"loss": 1.5}, high={"loss": 9.0})
    assert points_of([window], "loss") == [(100, 1.5), (200, 9.0), (300, 2.0)]


def test_steps_that_fall_back_or_are_absurd_make_no_crooked_curve() -> None:
    windows = [Window(step, {"loss": float(at)}) for at, step in enumerate((5, 10**400, -3, 2, 5))]
    assert points_of(windows, "loss") == [(2, 3.0), (5, 4.0)]


def test_repeated_steps_of_two_attempts_are_two_pieces() -> None:
    windows = [Window(step, {"loss": 1.0}) for step in (10, 20, 12, 14)]
    assert (21, None) in with_gaps(windows, "loss")
