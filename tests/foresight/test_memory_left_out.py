"""The memory of each publication, predicted without constants that were chosen on its own rows.

Only Megatron-DeepSpeed's share and buckets and torchtitan's selections were. The former are fitted
here to the other publication. The latter have one publication alone, so its rows with a selection
are left out.
"""

from __future__ import annotations

import itertools
import pathlib
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from benchmarks.published_rows import Published, published
from clusterjobs.foresight.formulas.memory import (
    CONTEXT,
    GIB,
    PARAMETERS_OF_BUCKETS,
    allocated_bytes,
)
from clusterjobs.foresight.formulas.memory_parts import rank_parameters
from tests.foresight.test_memory_accuracy import OOM, error, kind, p90

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "foresight.md"


class Buckets(NamedTuple):
    """The card shows `share` of the allocated bytes and `always` GiB, `one_stage` more with one."""

    share: float
    always: float
    one_stage: float


CHOICES = [
    Buckets(1 + share / 100, always / 2, one_stage / 2)
    for share, always, one_stage in itertools.product(range(0, 41, 2), range(9), range(13))
]


def measured(source: str) -> list[Published]:
    rows = [row for row in published() if row.source.startswith(source) and kind(row) == "dense"]
    return [row for row in rows if row.memory not in ("", OOM) and row.use in ("mem", "time")]


def card_errors(rows: Sequence[Published], buckets: Buckets) -> list[float]:
    return sorted(abs(_on_card(row, buckets) / GIB / float(row.memory) - 1) for row in rows)


def _on_card(row: Published, buckets: Buckets) -> float:
    stages = {0, row.layout.pipeline - 1}
    allocated = max(allocated_bytes(row.model, row.layout, stage) for stage in stages)
    further = buckets.always
    if row.layout.pipeline == 1:
        held = rank_parameters(row.model, row.layout, 0).dense
        further += buckets.one_stage * min(1.0, held / PARAMETERS_OF_BUCKETS)
    return buckets.share * allocated + CONTEXT + further * GIB


def page_row(name: str, errors: Sequence[float]) -> str:
    return (
        f"| {name} | {len(errors)} | {statistics.median(errors):.1%} | {p90(errors):.1%} |".replace(
            "%", " %"
        )
    )


@pytest.mark.parametrize(
    ("fitted", "judged", "name"),
    [
        ("bigscience tr11", "bigscience tr3m", "Megatron-DeepSpeed 1.3B, buckets of 176B"),
        ("bigscience tr3m", "bigscience tr11", "Megatron-DeepSpeed 176B, buckets of 1.3B"),
    ],
)
def test_megatron_deepspeed_is_predicted_from_the_other_publication(
    fitted: str, judged: str, name: str
) -> None:
    rows = measured(fitted)
    best = min(CHOICES, key=lambda one: sum(card_errors(rows, one)))
    assert page_row(name, card_errors(measured(judged), best)) in PAGE.read_text(encoding="utf-8")


def test_torchtitan_without_a_selection() -> None:
    rows = [row for row in measured("torchtitan") if row.layout.recompute != "selective_ops"]
    found = sorted(abs(error(row)) for row in rows)
    name = "torchtitan without its selective recomputation"
    assert page_row(name, found) in PAGE.read_text(encoding="utf-8")
