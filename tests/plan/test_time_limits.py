from __future__ import annotations

import pytest

from clusterjobs.plan.restarts import seconds_of


@pytest.mark.parametrize(
    ("time_limit", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("12:00:00", 43200),
        ("2-00", 172800),
        ("2-01:30", 178200),
        ("2-01:30:15", 178215),
        ("UNLIMITED", None),
    ],
)
def test_slurms_forms_of_a_time(time_limit: str, seconds: int | None) -> None:
    assert seconds_of(time_limit) == seconds
