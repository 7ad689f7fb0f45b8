"""Names of points: unique, safe as names of files, bounded, and stable."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.spec import points as point_names
from clusterjobs.spec.points import canonical, digests, names
from clusterjobs.yaml import document as yaml_document

HOSTILE = st.sampled_from(
    ["..", "a/b", "$(rm -rf /)", "`id`", "a b", "ü", "x\n", "*", "-", "", "~", "'", '"', "a" * 300]
)
SCALARS = st.one_of(
    HOSTILE,
    st.text(max_size=20),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = st.sampled_from(["args.lr", "env.lr", "batch.micro", "args.a-b", "args.0", "nodes", "x..y"])
POINTS = st.lists(st.dictionaries(KEYS, VALUES, max_size=5), max_size=20)


def named(points: list[dict[str, Any]]) -> list[str]:
    return names(points, digests(points))


@given(POINTS)
def test_names_are_unique_bounded_and_safe(points: list[dict[str, Any]]) -> None:
    found = named(points)
    assert len({name.lower() for name in found}) == len(points)  # also where case is ignored
    for index, name in enumerate(found):
        assert re.fullmatch(r"[A-Za-z0-9._=,+-]{1,74}", name)
        assert re.fullmatch(rf"{index:04}-.+-[0-9a-f]{{8}}", name)


@given(POINTS)
def test_the_digest_is_that_of_the_values_alone(points: list[dict[str, Any]]) -> None:
    apart = [digests([values])[0] for values in points]
    for values, digest, alone in zip(points, digests(points), apart, strict=True):
        is_repeated = sum(canonical(one) == canonical(values) for one in points) > 1
        assert is_repeated or digest == alone


def test_a_name_has_the_index_the_values_and_the_digest() -> None:
    values = yaml_document.load("{args.lr: 3e-4, batch.micro: 8, args.flag: true}", "").value
    assert named([values]) == ["0000-lr=3e-4,micro=8,flag=true-" + digests([values])[0]]
    assert digests([values]) == ["af4bf3e5"]  # never another one: folders are found by it


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("1e-4", "0.0001", True),
        ("1", "1.0", True),
        ("1000", "1e3", True),
        ("1", "true", False),
        ("1", "'1'", False),
        ("[1, 2.0]", "[1.0, 2]", True),
        ("{a: 1, b: 2}", "{b: 2, a: 1.0}", True),
        ("-0.0", "0", True),
        ("9007199254740993", "9007199254740992.0", False),
    ],
)
def test_equal_numbers_are_one_value(one: str, other: str, are_equal: bool) -> None:
    first, second = (yaml_document.load(text, "").value for text in (one, other))
    assert (canonical(first) == canonical(second)) is are_equal


def test_a_number_that_python_does_not_print_has_a_name() -> None:
    value = yaml_document.load("0x" + "f" * 3_990, "").value
    assert named([{"args.a": value}])[0].startswith("0000-a=0xfff")


def test_numbers_that_are_not_finite_have_a_text() -> None:
    assert len(set(map(canonical, (math.nan, math.inf, -math.inf)))) == 3


def test_more_words_of_a_key_are_used_where_the_last_one_is_not_enough() -> None:
    point = {"args.lr": 1, "env.lr": 2, "batch.micro": 3, "args.0": 4, "nodes": 5}
    assert named([point])[0].startswith("0000-args.lr=1,env.lr=2,micro=3,args.0=4,nodes=5-")


def test_an_index_of_many_points_has_more_digits_in_all_names() -> None:
    found = named([{"args.a": number} for number in range(10_001)])
    assert (found[0][:6], found[-1][:6]) == ("00000-", "10000-")


def test_a_point_that_changes_nothing_has_a_name() -> None:
    assert re.fullmatch(r"0000-spec-[0-9a-f]{8}", named([{}])[0])


def test_lists_and_mappings_are_in_the_label() -> None:
    point = {"args.betas": [0.9, 0.95], "batch": {"micro": 4}}
    assert named([point])[0].startswith("0000-betas=0.9+0.95,batch=micro=4-")


def test_points_whose_digests_collide_get_different_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = point_names._digest
    points = [{"args.a": number} for number in range(60)]
    assert len({whole(canonical(one))[:2] for one in points}) < len(points)
    monkeypatch.setattr(point_names, "_digest", lambda text: whole(text)[:2])
    assert len(set(digests(points))) == len(points)
