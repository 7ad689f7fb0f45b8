"""How well publications are predicted that the constants were not fitted to.

`left_out.json` has the constants fitted without each publication, by `benchmarks/foresight_fit.py`.
"""

from __future__ import annotations

import json
import math
import pathlib

import pytest

from benchmarks.foresight_fit import left_out_errors, table
from benchmarks.published_rows import (
    Published,
    best_is_tied,
    blackwell_rows,
    dense_rows,
    error,
    inside,
    prepare,
    published,
    quantile,
)
from clusterjobs.foresight.formulas.constants import fitted_constants, range_factors
from clusterjobs.foresight.formulas.speed import NEAREST_FILE, region

PAGE = pathlib.Path(__file__).parents[2] / "docs/foresight.md"
LEFT_OUT = json.loads(pathlib.Path(__file__).with_name("left_out.json").read_text())


def trust(row: Published) -> str:
    return region(row.model, row.layout, row.gpu, row.network).trust


def test_publications_left_out_are_predicted_within_7_percent_median_and_18_percent_p90() -> None:
    errors = left_out_errors()
    assert len(errors) > 450
    assert quantile(errors, 0.5) <= 0.07
    assert quantile(errors, 0.9) <= 0.18


def test_the_range_of_80_percent_holds_75_to_90_percent_of_rows_left_out() -> None:
    errors = [e for e in left_out_errors() if trust(e.row) == "validated"]
    low, _, high = range_factors("validated")
    assert 0.75 <= inside(errors, low, high) <= 0.90


def test_the_range_of_extrapolated_rows_holds_at_least_75_percent() -> None:
    constants = fitted_constants()
    rows = [row for row in dense_rows() + blackwell_rows() if trust(row) == "extrapolated"]
    errors = [error(row, constants) for row in rows]
    low, _, high = range_factors("extrapolated")
    assert len(errors) > 60
    assert inside(errors, low, high) >= 0.75


def test_a_factor_of_two_holds_most_rows_that_are_guessed() -> None:
    rows = [r for r in published() if r.use == "time" and r.step_seconds and trust(r) == "guess"]
    errors = [error(row, fitted_constants()) for row in rows]
    assert len(errors) > 100
    assert inside(errors, 0.5, 2.0) >= 0.9


def test_the_measured_best_layout_of_a_job_is_in_the_tie() -> None:
    best = best_is_tied(left_out_errors())
    assert len(best) >= 30
    assert sum(best) >= 0.9 * len(best)


def test_the_file_of_nearest_rows_is_made_of_the_published_rows() -> None:
    text = NEAREST_FILE.read_text(encoding="utf-8")
    assert json.loads(text) == prepare(published())


def test_the_table_of_the_page_is_the_measured_one() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(table(left_out_errors())) in page


def test_the_page_has_the_ranges() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for trust_name in ("validated", "extrapolated"):
        low, _, high = range_factors(trust_name)
        text = f"| {trust_name} | −{round(100 - 100 * low)} % to +{round(100 * high - 100)} % |"
        assert text in page


@pytest.mark.faults
def test_the_stored_constants_are_those_of_the_fit() -> None:
    pytest.importorskip("scipy")
    fit = pytest.importorskip("benchmarks.foresight_fit")
    source, values = fit.fit_without("mosaicml llm-foundry benchmarking README")
    for name, value in values.items():
        assert math.isclose(value, LEFT_OUT[source][name], rel_tol=0.05), name
