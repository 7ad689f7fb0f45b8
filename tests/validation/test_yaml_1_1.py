"""Values that ParallelCluster's YAML 1.1 reads as other numbers than ours does."""

from __future__ import annotations

import pytest

from clusterjobs.validation.yaml_1_1 import find_misread
from clusterjobs.yaml import document as yaml_document


def misread(value: str) -> list[tuple[str, str]]:
    text = f"config:\n  Settings:\n  - MaxTime: {value}\n"
    found = find_misread(yaml_document.load(text, "c.yaml", rules="1.1"), ("config",))
    return [(one.text, one.hint) for one in found if one.path == ("Settings", 0, "MaxTime")]


@pytest.mark.parametrize(
    ("written", "number"),
    [("12:00:00", 43200), ("36:00", 2160), ("010", 8), ("1_000", 1000), ("-1:30", -90)],
)
def test_a_number_of_yaml_1_1_alone_is_found(written: str, number: int) -> None:
    what = f"ParallelCluster reads {written} as the number {number}, by YAML 1.1"
    assert misread(written) == [(what, f'write it in quotes: "{written}"')]


@pytest.mark.parametrize(
    "written", ['"12:00:00"', "'36:00'", "12", "1.5", "1-00:00:00", "yes", "UNLIMITED", "0", "~"]
)
def test_what_both_read_alike_is_none(written: str) -> None:
    assert misread(written) == []
