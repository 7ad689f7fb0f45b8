"""The points of a sweep: the product of its lists, drawn values, exclude and include."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import Problem
from clusterjobs.spec.keys.sweep import Sweep
from clusterjobs.spec.layers import Layer, Origin, Source
from clusterjobs.spec.points import canonical, make_points
from clusterjobs.yaml import document as yaml_document

KEYS = ("args.a", "args.b", "args.c", "args.d")
VALUES = st.one_of(st.integers(-5, 5), st.text("ab/$ ü.'\n", max_size=4), st.booleans())
LISTS = st.lists(VALUES, min_size=1, max_size=4, unique_by=canonical)
GRIDS = st.dictionaries(st.sampled_from(KEYS), LISTS, min_size=1)
SEEDS = st.integers(0, 2**40)
RANDOM = {"args.x": {"uniform": [0, 1]}, "args.y": {"choice": ["p", "q"]}}


def found(sweep: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Problem]]:
    """The values of the points, and the problems."""
    document = yaml_document.load(json.dumps({"sweep": sweep}), "exp.yaml")
    diagnostics = Diagnostics(Source(Origin(Layer("spec", document, document.value), ())))
    points = make_points(Sweep.model_validate(document.value["sweep"]), diagnostics)
    assert [point.index for point, _ in points] == list(range(len(points)))
    for point, values in points:
        assert point.name.endswith(f"-{point.label}")
        assert point.label.endswith(f"-{point.digest}")
        assert point.values == {key: one.value for key, one in values.items()}
        for key, one in values.items():  # each value is where it was written
            assert yaml_document.look_at(document.value, one.key_at) is not None
            assert one.key_at[2] == key or one.key_at[3] == key
    assert len({point.digest for point, _ in points}) == len(points)
    assert len({canonical(dict(point.values)) for point, _ in points}) == len(points)
    return [dict(point.values) for point, _ in points], diagnostics.problems


def points_of(**sweep: Any) -> list[dict[str, Any]]:
    points, problems = found(sweep)
    assert not [one for one in problems if not one.warning]
    return points


@given(GRIDS)
def test_a_grid_is_the_product_and_its_last_key_varies_fastest(grid: dict[str, Any]) -> None:
    product = itertools.product(*grid.values())
    assert points_of(grid=grid) == [dict(zip(grid, one, strict=True)) for one in product]


@given(GRIDS, st.data())
def test_zip_is_one_more_axis(grid: dict[str, Any], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=3, unique_by=str))
    zipped = {"args.y": [one for one, _ in rows], "args.z": [other for _, other in rows]}
    if len({canonical(list(row)) for row in rows}) < len(rows):
        return
    expected = [
        {**one, "args.y": row[0], "args.z": row[1]} for one in points_of(grid=grid) for row in rows
    ]
    assert points_of(grid=grid, zip=zipped) == expected


@given(GRIDS, SEEDS, st.integers(1, 5), st.integers(0, 5))
@example({"args.a": [0]}, 8849, 4, 2)  # the sixth sample is the fourth one again
def test_more_samples_keep_the_first_points_in_their_places(
    grid: dict[str, Any], seed: int, count: int, more: int
) -> None:
    few = points_of(grid=grid, random=RANDOM, samples=count, seed=seed)
    many = points_of(grid=grid, random=RANDOM, samples=count + more, seed=seed)
    assert many[: len(few)] == few
    assert points_of(grid=grid, random=RANDOM, samples=count, seed=seed) == few


@given(GRIDS, SEEDS)
def test_every_sample_is_combined_with_the_grid(grid: dict[str, Any], seed: int) -> None:
    drawn = points_of(random=RANDOM, samples=3, seed=seed)
    expected = [{**one, **sample} for sample in drawn for one in points_of(grid=grid)]
    assert points_of(grid=grid, random=RANDOM, samples=3, seed=seed) == expected


@given(GRIDS, st.data())
def test_exclude_leaves_out_the_points_that_have_all_its_values(
    grid: dict[str, Any], data: st.DataObject
) -> None:
    every = points_of(grid=grid)
    chosen = data.draw(st.lists(st.sampled_from(every), max_size=3))
    rules = [dict(itertools.islice(one.items(), data.draw(st.integers(1, 2)))) for one in chosen]
    left = [one for one in every if not any(rule.items() <= one.items() for rule in rules)]
    points, problems = found({"grid": grid, "exclude": rules})
    by_text = [one for one in every if not any(_has(one, rule) for rule in rules)]
    assert len(by_text) >= len(left)  # True == 1 in Python, and not in YAML
    assert points == by_text
    assert bool(problems) is not bool(by_text)


def _has(point: dict[str, Any], rule: dict[str, Any]) -> bool:
    return all(canonical(point[key]) == canonical(value) for key, value in rule.items())


def test_exclude_compares_numbers_by_value() -> None:
    assert points_of(grid={"args.a": [1e-4, 2]}, exclude=[{"args.a": 2.0}]) == [{"args.a": 1e-4}]


def test_a_rule_of_exclude_without_effect_is_a_warning() -> None:
    points, problems = found({"grid": {"args.a": [1, 2]}, "exclude": [{"args.a": 3}]})
    assert len(points) == 2
    assert [(one.what, one.warning, one.path) for one in problems] == [
        ("no point has these values", True, "sweep.exclude[0]")
    ]


def test_points_of_include_come_last_with_their_own_keys_alone() -> None:
    points = points_of(grid={"args.a": [1, 2]}, include=[{"args.b": 3}, {}])
    assert points == [{"args.a": 1}, {"args.a": 2}, {"args.b": 3}, {}]


def test_an_excluded_point_can_be_included() -> None:
    swept = {"args.a": [1, 2]}
    points = points_of(grid=swept, exclude=[{"args.a": 1}], include=[{"args.a": 1}])
    assert points == [{"args.a": 2}, {"args.a": 1}]


def test_a_sweep_may_consist_of_include_alone() -> None:
    assert points_of(include=[{"args.a": 1}]) == [{"args.a": 1}]


def test_equal_samples_are_one_point() -> None:
    points = points_of(random={"args.a": {"int_uniform": [1, 2]}}, samples=50)
    assert sorted(one["args.a"] for one in points) == [1, 2]


def test_ten_thousand_points_are_accepted_and_no_more() -> None:
    ten = list(range(10))
    grid = {"args.a": ten, "args.b": ten, "args.c": ten, "args.d": ten}
    assert len(points_of(grid=grid)) == 10_000
    points, problems = found({"grid": grid, "include": [{"args.a": 11}]})
    assert points == []
    assert problems[0].what == "10,001 points are more than 10,000"


def test_the_number_is_checked_before_anything_is_made() -> None:
    many = {f"args.a{number}": list(range(50)) for number in range(20)}
    points, problems = found({"grid": many, "random": RANDOM, "samples": 1_000_000})
    assert points == []
    assert problems[0].what.endswith("points are more than 10,000")


@pytest.mark.parametrize("section", ["grid", "zip", "random"])
def test_a_key_inside_another_is_refused(section: str) -> None:
    inner: Any = {"choice": [1]} if section == "random" else [1]
    sweep = {"grid": {"batch": [{"micro": 1}]}}
    sweep[section] = {**sweep.get(section, {}), "batch.micro": inner}
    _, problems = found({**sweep, **({"samples": 1} if section == "random" else {})})
    assert [one.what for one in problems] == ["this is inside batch, which the same points set"]
