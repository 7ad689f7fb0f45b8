"""Memory compared with published measurements, and the verdict with what ran and what did not.

The formulas are physics, with few constants of their own: 1.22 and the buckets of
Megatron-DeepSpeed come from two publications, and the shares of torchtitan's selection from one.
The functional tests of Megatron-LM had no part in any of them.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator

from benchmarks.published_rows import Published, published
from clusterjobs.foresight.formulas.memory import (
    GIB,
    RESERVED_PER_ALLOCATED,
    allocated_bytes,
    estimate_memory,
    stage_parts,
)

OOM = "OOM"


def error(row: Published) -> float:
    """The estimate of what the source measured, by the measurement, less 1."""
    last = row.layout.pipeline - 1
    stages = {last} if row.memory_stage == "last rank" else {0, last}
    if row.memory_kind == "smi":
        estimate = max(stage_parts(row.model, row.layout, stage).total for stage in stages)
    else:
        estimate = max(allocated_bytes(row.model, row.layout, stage) for stage in stages)
        estimate *= RESERVED_PER_ALLOCATED if row.memory_kind == "reserved" else 1
    return estimate / GIB / float(row.memory) - 1


def kind(row: Published) -> str:
    if row.model.experts:
        return "experts"
    return "dense" if row.model.causal else "encoder"


def errors(source: str, of: str) -> list[float]:
    rows = [row for row in published() if row.source.startswith(source) and kind(row) == of]
    rows = [row for row in rows if row.memory not in ("", OOM) and row.use in ("mem", "time")]
    return sorted(abs(error(row)) for row in rows)


def p90(values: list[float]) -> float:
    return values[round(0.9 * (len(values) - 1))]


def test_dense_models_of_megatron() -> None:
    found = errors("Megatron-LM functional tests", "dense")
    assert len(found) == 109
    assert statistics.median(found) < 0.03
    assert p90(found) < 0.10


def test_encoders_and_experts_of_megatron() -> None:
    assert statistics.median(errors("Megatron-LM functional tests", "encoder")) < 0.03
    experts = errors("Megatron-LM functional tests", "experts")
    assert statistics.median(experts) < 0.06
    assert p90(experts) < 0.12


def test_what_the_card_shows_with_megatron_deepspeed() -> None:
    for source in ("bigscience tr11", "bigscience tr3m"):
        found = errors(source, "dense")
        assert statistics.median(found) < 0.06
        assert p90(found) < 0.13


def test_fsdp_of_torchtitan() -> None:
    found = errors("torchtitan", "dense")
    assert len(found) == 18
    assert statistics.median(found) < 0.06
    assert p90(found) < 0.15


@functools.cache
def verdicts() -> tuple[tuple[Published, str], ...]:
    return tuple(
        (row, estimate_memory(row.model, row.layout, row.gpu).verdict) for row in _judged()
    )


def _judged() -> Iterator[Published]:
    """Rows that ran out of memory, and those whose time proves that they fitted.

    Left out: rows that do not say whether they recompute, and InternEvo, which keeps further
    copies of the parameters that it does not name.
    """
    for row in published():
        is_known = "recompute" not in row.assumed and row.layout.engine != "internevo"
        if row.memory == OOM or (row.use == "time" and row.step_seconds and is_known):
            yield row


def test_no_job_that_ran_out_of_memory_is_said_to_fit() -> None:
    found = [verdict for row, verdict in verdicts() if row.memory == OOM]
    assert len(found) == 7
    assert "fits" not in found


def test_at_most_2_percent_of_the_jobs_that_ran_are_said_not_to_fit() -> None:
    ran = [verdict for row, verdict in verdicts() if row.memory != OOM]
    assert len(ran) > 400
    assert ran.count("does_not_fit") <= 0.02 * len(ran)
    assert ran.count("fits") > 0.7 * len(ran)
