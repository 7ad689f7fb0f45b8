"""Two changed copies of a text: what one side changed is kept, what both changed is marked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.script.site.merge import Names, marker_problems, merge

NAMES = Names("yours", "base", "packaged")
BASE = "".join(f"line {number}\n" for number in range(1, 8))
TEXTS = st.lists(st.sampled_from("abcd"), max_size=12).map(lambda lines: "\n".join([*lines, ""]))


def test_changes_of_different_lines_are_both_kept() -> None:
    ours, theirs = BASE.replace("line 2", "two"), BASE.replace("line 6\n", "six\nsix and a half\n")
    assert merge(BASE, ours, theirs, NAMES) == (
        ours.replace("line 6\n", "six\nsix and a half\n"),
        0,
    )


def test_changes_of_the_same_line_are_marked_with_the_three_versions() -> None:
    merged = merge(BASE, BASE.replace("line 4", "ours"), BASE.replace("line 4", "theirs"), NAMES)
    assert merged.conflicts == 1
    assert merged.text == BASE.replace(
        "line 4\n",
        "<<<<<<< yours\nours\n||||||| base\nline 4\n=======\ntheirs\n>>>>>>> packaged\n",
    )
    assert [str(one.where) for one in marker_problems(merged.text, "a.j2")] == ["a.j2:4:1"]


def test_changes_of_adjacent_lines_are_a_conflict() -> None:
    ours, theirs = BASE.replace("line 4", "ours"), BASE.replace("line 5", "theirs")
    assert merge(BASE, ours, theirs, NAMES).conflicts == 1


def test_the_same_change_on_both_sides_is_no_conflict() -> None:
    changed = BASE.replace("line 4", "both")
    assert merge(BASE, changed, changed, NAMES) == (changed, 0)


def test_a_last_line_without_newline_does_not_run_into_a_marker() -> None:
    merged = merge("a", "b", "c", NAMES)
    assert merged.text == "<<<<<<< yours\nb\n||||||| base\na\n=======\nc\n>>>>>>> packaged\n"


@given(TEXTS, TEXTS)
def test_a_change_of_one_side_alone_is_taken_whole(base: str, changed: str) -> None:
    assert merge(base, changed, base, NAMES) == (changed, 0)
    assert merge(base, base, changed, NAMES) == (changed, 0)
    assert merge(base, changed, changed, NAMES) == (changed, 0)


@given(TEXTS, TEXTS, TEXTS)
def test_no_line_that_either_side_has_added_is_lost(base: str, ours: str, theirs: str) -> None:
    merged = merge(base, ours, theirs, NAMES)
    added = (set(ours.split()) | set(theirs.split())) - set(base.split())
    assert added <= set(merged.text.split())
    assert (merged.conflicts > 0) == bool(marker_problems(merged.text, ""))


def test_a_marker_that_was_left_alone_is_found() -> None:
    for marker in ("||||||| base", "=======", ">>>>>>> packaged"):
        (problem,) = marker_problems(f"a\n{marker}\n", "a.j2")
        assert str(problem.where) == "a.j2:2:1"


def test_what_only_looks_like_a_marker_is_none() -> None:
    assert not marker_problems("cat <<<<<<< x\n<<<<<<\n======== a\n<<<<<<<EOF\n", "a.j2")
