"""The labels of each launcher, and whose line it is."""

from __future__ import annotations

import pytest

from clusterjobs.runs.follow.rank_lines import Labels, RankText

BY_RANK, BY_NODE, BY_NOBODY = Labels(1), Labels(8), Labels(0)


@pytest.mark.parametrize(
    ("labels", "rank", "line"),
    [
        (BY_RANK, 3, "3: loss 0.5"),
        (BY_RANK, 3, "  3: loss 0.5"),
        (BY_RANK, 3, "003: loss 0.5"),
        (BY_RANK, 3, "3: [rank3]: loss 0.5"),
        (BY_RANK, 3, "[1,3]<stdout>:loss 0.5"),
        (BY_RANK, 3, "[1,3]<stderr>:loss 0.5"),
        (BY_RANK, 3, "[prterun-n1-1234@1,3]<stdout>: loss 0.5"),
        (BY_RANK, 3, "0: [3]<stdout>:loss 0.5"),
        (BY_NOBODY, 3, "0: [3]<stdout>:loss 0.5"),
        (BY_NODE, 3, "0: [default3]:loss 0.5"),
        (BY_NODE, 11, "1: [default3]:loss 0.5"),
        (BY_NODE, 11, "1: [rank11]: loss 0.5"),
        (BY_NODE, 11, "1: [default3]:[rank11]: loss 0.5"),
        (BY_NODE, 11, "[rank11]: loss 0.5"),
    ],
)
def test_a_label_is_known_and_removed(labels: Labels, rank: int, line: str) -> None:
    assert labels.text_of(rank, line) == RankText("loss 0.5", True)
    for other in {0, 1, 2, 3, 4, 11, 12} - {rank}:
        assert labels.text_of(other, line) is None


def test_where_a_label_names_the_node_its_ranks_may_have_written_the_line() -> None:
    for rank in range(8, 16):
        assert BY_NODE.text_of(rank, "1: loss 0.5") == RankText("loss 0.5", False)
    assert BY_NODE.text_of(7, "1: loss 0.5") is None
    assert BY_NODE.text_of(16, "1: loss 0.5") is None


def test_where_one_task_prints_all_lines_its_number_tells_nothing() -> None:
    assert BY_NOBODY.text_of(0, "0: n1: loss 0.5") is None


@pytest.mark.parametrize("line", ["", "clusterjobs: attempt 2", "3 loss", "[model3]: x", "12:30 x"])
def test_lines_without_a_label_are_nobodys(line: str) -> None:
    for rank in (0, 3, 12):
        assert BY_RANK.text_of(rank, line) is None


def test_only_the_labels_are_removed() -> None:
    assert BY_RANK.text_of(0, "0:   indented: 1: [x]\n") == RankText("  indented: 1: [x]\n", True)
    assert BY_RANK.text_of(0, "0: \n") == RankText("\n", True)
