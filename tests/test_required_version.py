"""`requires` of a site folder: which versions of clusterjobs fit."""

from __future__ import annotations

import pytest

from clusterjobs.sites.folders import wrong_version


@pytest.mark.parametrize(
    ("requires", "fits"),
    [
        (">=0.3", True),
        (">=0.3.1", False),
        (">0.3", False),
        ("==0.3", True),
        ("!=0.3.0", False),
        (">= 0.1, <2", True),
        (">=0.1,<0.3", False),
        (0.3, False),
        ("new", False),
    ],
)
def test_versions_are_compared_as_numbers(requires: object, fits: bool) -> None:
    assert (wrong_version(requires, "0.3.0") is None) == fits
    assert wrong_version(">=0.9", "0.10.0") is None
