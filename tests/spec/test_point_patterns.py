"""Points chosen by index, name or glob, and by a part of a name."""

from __future__ import annotations

import pytest

from clusterjobs.errors import InputError
from clusterjobs.runs.jobs import patterns as point_patterns
from clusterjobs.runs.jobs.patterns import one_point, points_matching

_NAMES = (
    "0000-lr=1e-3,micro=4-0badcafe",
    "0001-lr=1e-3,micro=8-12345678",
    "0002-lr=3e-4,micro=4-aaaaaaaa",
    "0003-lr=3e-4,micro=8-bbbbbbbb",
)
_POINTS = {name: index for index, name in enumerate(_NAMES)}


@pytest.mark.parametrize(
    ("patterns", "indexes"),
    [
        (["3"], [3]),
        (["3,0-1"], [0, 1, 3]),
        ([" 1 - 2 , 3 "], [1, 2, 3]),
        (["2", "0002-lr=3e-4,micro=4-aaaaaaaa"], [2]),
        (["*lr=1e-3,micro=?-*"], [0, 1]),
        (["*micro=8*", "0"], [0, 1, 3]),
        (["0-999999999"], [0, 1, 2, 3]),
        (["*"], [0, 1, 2, 3]),
    ],
)
def test_points_are_chosen_by_index_name_and_glob(patterns: list[str], indexes: list[int]) -> None:
    assert points_matching(patterns, _POINTS) == tuple(_NAMES[index] for index in indexes)


@pytest.mark.parametrize(
    ("pattern", "what", "hint"),
    [
        ("7", "no point 7", "the points are 0 to 3"),
        ("3-1", "no points 3-1", "write 1-3"),
        ("8-9", "no points 8-9", "the points are 0 to 3"),
        (
            "micro=8",
            "no point is named 'micro=8'",
            f"names are matched whole: '*micro=8*' matches {_NAMES[1]}",
        ),
        (
            "0001-lr=1e-3,micro=8-12345679",
            "no point is named '0001-lr=1e-3,micro=8-12345679'",
            f"did you mean {_NAMES[1]}?",
        ),
        (
            "",
            "no point is named ''",
            f"the points are 0 to 3; the first is named {_NAMES[0]}",
        ),
        (
            "9" * 5000,
            f"no point {'9' * 5000}",
            "the points are 0 to 3",
        ),
    ],
)
def test_a_pattern_without_a_point_is_an_error(pattern: str, what: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        points_matching([pattern], _POINTS)
    assert [(one.what, one.hint) for one in error.value.problems] == [(what, hint)]


def test_every_pattern_without_a_point_is_reported() -> None:
    with pytest.raises(InputError) as error:
        points_matching(["8,1,9", "x*"], _POINTS)
    assert [one.what for one in error.value.problems] == [
        "no point 8",
        "no point 9",
        "no point is named 'x*'",
    ]


@pytest.mark.parametrize(
    ("text", "index"),
    [("1", 1), ("3e-4,micro=8", 3), ("12345678", 1), (_NAMES[2], 2), ("0003*", 3)],
)
def test_one_point_is_found_by_a_part_of_its_name(text: str, index: int) -> None:
    assert one_point(text, _POINTS) == _NAMES[index]


@pytest.mark.parametrize("text", ["4", "8", "0004", "1234567", "87654321", "9" * 5000])
def test_a_number_is_never_a_part_of_a_name(text: str) -> None:
    points = {"0000-seed=4,lr=87654321-0badcafe": 0, "0001-seed=5,lr=1-aaaaaaa8": 1}
    with pytest.raises(InputError) as error:
        one_point(text, points)
    [problem] = error.value.problems
    assert (problem.what, problem.hint) == (f"no point {text}", "the points are 0 to 1")


def test_a_part_of_several_names_lists_them() -> None:
    with pytest.raises(InputError) as error:
        one_point("micro=8", _POINTS)
    [problem] = error.value.problems
    assert problem.what == "'micro=8' is a part of several points' names"
    assert problem.hint == f"one of {_NAMES[1]}, {_NAMES[3]}"


def test_a_point_of_a_changed_spec_does_not_hide_the_newest_one_of_its_index() -> None:
    changed = {"0001-lr=9-cccccccc": 1, **_POINTS}
    assert one_point("1", changed) == _NAMES[1]
    assert points_matching(["1"], changed) == ("0001-lr=9-cccccccc", _NAMES[1])


def test_a_name_is_compared_with_no_other_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of names may be given: each would be compared with all the others."""
    monkeypatch.setattr(point_patterns, "fnmatchcase", None)
    assert points_matching(_NAMES[1:3], _POINTS) == _NAMES[1:3]
