"""Numbers of reports, as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from clusterjobs.report.tables import dollars, duration, loss, number, seconds, share


@pytest.mark.parametrize(
    ("shown", "value", "text"),
    [
        (number, 182_132.4, "182,100"),
        (number, 0.35981, "0.3598"),
        (number, 0.000015, "1.5e-05"),
        (number, 0.0, "0"),
        (number, -12.3456, "-12.35"),
        (number, math.nan, "not a number"),
        (number, -math.inf, "-infinite"),
        (seconds, 0.35981, "359.8 ms"),
        (seconds, 12.344, "12.34 s"),
        (duration, 7.3, "7.3 s"),
        (duration, 750, "12 min 30 s"),
        (duration, 19_210, "5 h 20 min"),
        (duration, 532_800, "6 d 4 h"),
        (duration, 3_599.7, "1 h"),
        (duration, 59.9, "1 min"),
        (duration, 172_799, "2 d"),
        (seconds, 0.99999, "1 s"),
        (seconds, math.inf, "infinite s"),
        (share, 0.171, "17.1 %"),
        (share, 0.0001, "< 0.1 %"),
        (share, 0.0, "0.0 %"),
        (loss, 2.65, "2.650"),
        (loss, 0.00012, "0.00012"),
        (dollars, 25.3, "$25.30"),
        (dollars, 14_112.4, "$14,112"),
    ],
)
def test_number_is_shown_as(shown: Callable[[float], str], value: float, text: str) -> None:
    assert shown(value) == text
