"""The lines of one rank, whatever parts the log comes in."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.runs.follow import rank_lines as rank_filter
from clusterjobs.runs.follow.rank_lines import Labels, RankFilter

LOG = "clusterjobs: attempt 2\n0: a\n1: b\n 1: \n10: d\n1: e\n0: 1: f\n1: no end"
OF_RANK_1 = "b\n\ne\nno end"


@given(st.lists(st.integers(0, len(LOG)), max_size=5))
def test_the_parts_do_not_matter(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(LOG)]
    rank = RankFilter(Labels(1), 1)
    parts = [LOG[start:end] for start, end in itertools.pairwise(ends)]
    assert "".join(map(rank.passed, parts)) + rank.rest() == OF_RANK_1
    assert rank.found
    assert rank.is_certain


def test_a_line_of_a_node_is_not_certain_to_be_the_ranks() -> None:
    rank = RankFilter(Labels(8), 9)
    assert rank.passed("0: a\n1: b\n1: [rank8]: c\n") == "b\n"
    assert not rank.is_certain


def test_without_a_line_of_the_rank_nothing_is_found() -> None:
    rank = RankFilter(Labels(1), 7)
    assert rank.passed(LOG) + rank.rest() == ""
    assert not rank.found


def test_a_line_longer_than_the_memory_is_passed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_filter, "_LONGEST_WAIT", 300)
    rank = RankFilter(Labels(1), 1)
    parts = ["0: " + "x" * 400, "1: y", "\n1: " + "z" * 400, "0: z", "z\n0: a\n1: b\n"]
    passed = [rank.passed(part) for part in parts]
    assert passed[:2] == ["", ""]
    assert passed[2] == "z" * 400
    assert "".join(passed[3:]) == "0: zz\nb\n"
