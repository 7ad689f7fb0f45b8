"""Wrong specs are refused, or warned of where the framework trains all the same."""

from __future__ import annotations

from typing import Any

import pytest
from spec_rows import Row, problems_of_row, rows

WRONG = rows("wrong")


@pytest.mark.parametrize("row", WRONG, ids=lambda row: row.id)
def test_a_wrong_spec_is_reported_before_anything_is_rendered(row: Row) -> None:
    problems = problems_of_row(row)
    found = [one for one in problems if one.path == row.expected["at"]]
    assert [one for one in found if row.expected["says"] in one.what], problems
    assert all(one.hint for one in found)
    is_refused = any(not one.warning for one in problems)
    assert is_refused is not row.expected.get("warning", False), problems


@pytest.mark.parametrize(
    "row", [row for row in WRONG if "deepspeed" in row.expected], ids=lambda row: row.id
)
def test_deepspeed_does_what_is_said_of_it(row: Row, deepspeed_config) -> None:
    """What is called ignored is taken without a word, and what is called refused is not."""
    stage = row.spec.get("zero", {}).get("stage", 0)
    own: dict[str, Any] = row.spec["ds_config"]
    zero = {"stage": stage, **own.get("zero_optimization", {})}
    config = {"train_micro_batch_size_per_gpu": 1, **own, "zero_optimization": zero}
    if row.expected["deepspeed"] == "ignores":
        deepspeed_config(config, 1)
    else:
        with pytest.raises(Exception):  # noqa: B017, PT011  # of DeepSpeed's own kinds, and pydantic's
            deepspeed_config(config, 1)


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 60
