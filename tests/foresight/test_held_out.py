"""Estimates compared with publications that no constant was fitted to, and no range.

`held_out.csv` has the columns of published.csv; `assumed` names what a source does not say.
`docs/foresight.md` has the same figures. The thresholds are a little wider than what was seen.
"""

from __future__ import annotations

import functools
import pathlib

from benchmarks.published_rows import (
    Error,
    Published,
    bias,
    error,
    inside,
    published,
    quantile,
    read_rows,
)
from clusterjobs.foresight.formulas.constants import fitted_constants, range_factors
from clusterjobs.foresight.formulas.memory import estimate_memory
from clusterjobs.foresight.formulas.speed import region

FILE = pathlib.Path(__file__).with_name("held_out.csv")
PAGE = pathlib.Path(__file__).parents[2] / "docs/foresight.md"


@functools.cache
def held_out() -> tuple[Published, ...]:
    with FILE.open(encoding="utf-8", newline="") as lines:
        return tuple(read_rows(lines))


@functools.cache
def errors() -> tuple[Error, ...]:
    timed = (row for row in held_out() if row.step_seconds)
    return tuple(error(row, fitted_constants()) for row in timed)


def of_trust(trust: str) -> list[Error]:
    return [e for e in errors() if _trust(e.row) == trust]


def _trust(row: Published) -> str:
    return region(row.model, row.layout, row.gpu, row.network).trust


def test_no_constant_was_fitted_to_these_publications() -> None:
    fitted = {row.source for row in published()}
    assert not fitted & {row.source for row in held_out()}
    assert len(held_out()) > 150
    assert all(row.url for row in held_out())


def test_step_times_are_within_9_percent_median_and_27_percent_p90() -> None:
    assert quantile(errors(), 0.5) <= 0.09
    assert quantile(errors(), 0.9) <= 0.27


def test_validated_step_times_are_within_8_percent_median_and_18_percent_p90() -> None:
    assert quantile(of_trust("validated"), 0.5) <= 0.08
    assert quantile(of_trust("validated"), 0.9) <= 0.18


def test_ranges_of_80_percent_hold_75_to_90_percent() -> None:
    for trust in ("validated", "extrapolated"):
        low, _, high = range_factors(trust)
        assert 0.75 <= inside(of_trust(trust), low, high) <= 0.90, trust


def test_a_factor_of_two_holds_every_guess() -> None:
    guesses = of_trust("guess")
    assert len(guesses) >= 7
    assert inside(guesses, 0.5, 2.0) == 1


def test_at_most_2_percent_of_what_ran_does_not_fit() -> None:
    ran = [row for row in held_out() if row.memory != "OOM"]
    refused = [row for row in ran if _verdict(row) == "does_not_fit"]
    assert len(refused) <= 0.02 * len(ran)


def test_what_was_out_of_memory_never_fits() -> None:
    known = [row for row in held_out() if row.memory == "OOM"]
    assert len(known) >= 3
    assert "fits" not in {_verdict(row) for row in known}


def _verdict(row: Published) -> str:
    return estimate_memory(row.model, row.layout, row.gpu).verdict


def test_the_table_of_the_page_is_the_measured_one() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for source in dict.fromkeys(e.row.source for e in errors()):
        text = _table_row(source, [e for e in errors() if e.row.source == source])
        assert text in page, f"docs/foresight.md should have: {text}"
    assert _table_row("**all held out**", list(errors())) in page


def _table_row(name: str, some: list[Error]) -> str:
    median, p90 = quantile(some, 0.5), quantile(some, 0.9)
    return f"| {name} | {len(some)} | {bias(some):+.1%} | {median:.1%} | {p90:.1%} |"
