"""Values drawn for a sweep: fixed by seed, key and number, on every machine and version."""

from __future__ import annotations

import decimal
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.spec.points import draw
from clusterjobs.spec.references import as_text
from clusterjobs.yaml import document as yaml_document

SEEDS = st.integers(0, 2**63 - 1)
KEYS = st.sampled_from(["args.lr", "batch.micro", "args.ü"])
BOUNDS = st.floats(-(2.0**53), 2.0**53, exclude_min=True, exclude_max=True)
UNIFORM = "0.7765 0.1964 0.457 0.3915 0.3322"
LOG_UNIFORM = "0.01277 6.106e-05 0.0006733 0.0003682 0.0002132"
INT_UNIFORM = "777 197 458 392 333"
CHOICE = "d a b b b"


def drawn(wanted: dict[str, object], seed: int = 7, key: str = "args.lr", count: int = 5) -> str:
    return " ".join(as_text(draw(wanted, seed, key, index)[0]) for index in range(count))


def test_the_values_of_a_seed_never_change() -> None:
    """Users have runs with these values: another generator would make other points of them."""
    assert drawn({"uniform": [0, 1]}) == UNIFORM
    assert drawn({"log_uniform": [1e-5, 0.1]}) == LOG_UNIFORM
    assert drawn({"int_uniform": [1, 1000]}) == INT_UNIFORM
    assert drawn({"choice": ["a", "b", "c", "d"]}) == CHOICE


def test_seeds_and_keys_give_other_values() -> None:
    wanted: dict[str, object] = {"uniform": [0, 1]}
    assert len({drawn(wanted, seed, key) for seed in (0, 1) for key in ("a", "b")}) == 4


@given(SEEDS, KEYS, st.integers(0, 10_000), BOUNDS, BOUNDS)
def test_a_uniform_number_is_within_its_bounds_and_has_few_digits(
    seed: int, key: str, index: int, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    value, item = draw({"uniform": [low, high]}, seed, key, index)
    assert item is None
    assert low <= value <= high
    digits = as_text(value).partition("e")[0].strip("-0.").replace(".", "").rstrip("0")
    assert len(digits) <= 4 or value in (low, high)


@given(SEEDS, KEYS, st.integers(0, 10_000), BOUNDS, BOUNDS)
def test_a_log_uniform_number_is_within_its_bounds(
    seed: int, key: str, index: int, one: float, other: float
) -> None:
    low, high = sorted((abs(one) or 1e-300, abs(other) or 1.0))
    value, _ = draw({"log_uniform": [low, high]}, seed, key, index)
    assert low <= value <= high


@given(SEEDS, KEYS, st.integers(0, 10_000), st.integers(-(2**53) + 1, 2**53 - 2))
def test_an_int_uniform_number_is_an_integer_within_its_bounds(
    seed: int, key: str, index: int, low: int
) -> None:
    value, _ = draw({"int_uniform": [low, low + 1]}, seed, key, index)
    assert isinstance(value, int)
    assert value in (low, low + 1)


@given(SEEDS, KEYS, st.integers(0, 10_000), st.lists(st.integers(), min_size=1))
def test_a_choice_is_one_of_the_list_at_the_place_it_says(
    seed: int, key: str, index: int, choices: list[int]
) -> None:
    value, item = draw({"choice": choices}, seed, key, index)
    assert item is not None
    assert choices[item] == value


@given(SEEDS, KEYS, st.integers(0, 10_000), BOUNDS, BOUNDS)
def test_exactly_the_printed_number_is_used(
    seed: int, key: str, index: int, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    value, _ = draw({"uniform": [low, high]}, seed, key, index)
    assert yaml_document.load(as_text(value), "x").value == value


def test_the_numbers_do_not_depend_on_the_decimal_context_of_the_process() -> None:
    wanted: dict[str, object] = {"log_uniform": [1e-5, 0.1]}
    with decimal.localcontext() as context:
        context.prec = 3
        assert drawn(wanted) == LOG_UNIFORM


@pytest.mark.parametrize(
    ("wanted", "mean"),
    [
        ({"uniform": [0, 10]}, 5.0),
        ({"int_uniform": [0, 10]}, 5.0),
        ({"log_uniform": [1e-4, 1.0]}, -2.0),
        ({"choice": [0, 10]}, 5.0),
    ],
)
def test_the_values_are_spread_evenly(wanted: dict[str, object], mean: float) -> None:
    values = [draw(wanted, 0, "args.lr", index)[0] for index in range(2000)]
    if "log_uniform" in wanted:
        values = [math.log10(value) for value in values]
    assert sum(values) / len(values) == pytest.approx(mean, abs=0.3)
