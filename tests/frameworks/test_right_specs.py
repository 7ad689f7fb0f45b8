"""Right specs are accepted, and the framework reads the same numbers from what is rendered."""

from __future__ import annotations

import pytest
from spec_rows import Row, ds_config_of, numbers_of, plan_of_row, rows

RIGHT = rows("right")


@pytest.mark.parametrize("row", RIGHT, ids=lambda row: row.id)
def test_a_right_spec_is_accepted_with_equal_numbers(row: Row) -> None:
    assert numbers_of(row) == tuple(row.expected["numbers"])
    if "warnings" in row.expected:
        assert len(plan_of_row(row).warnings) == row.expected["warnings"]


@pytest.mark.parametrize(
    "row",
    [row for row in RIGHT if row.spec["framework"] in ("deepspeed", "megatron-deepspeed")],
    ids=lambda row: row.id,
)
def test_deepspeed_itself_takes_the_config(row: Row, deepspeed_config) -> None:
    plan = plan_of_row(row)
    read = deepspeed_config(ds_config_of(plan), plan.parallelism.data)
    assert plan.batch
    assert read.train_batch_size == plan.batch.global_
    assert read.train_micro_batch_size_per_gpu == plan.batch.micro
    assert read.gradient_accumulation_steps == plan.batch.accumulation


def test_there_are_enough_of_them() -> None:
    assert len(RIGHT) >= 45
    assert sum(row.expected.get("unusual", False) for row in RIGHT) >= 10
