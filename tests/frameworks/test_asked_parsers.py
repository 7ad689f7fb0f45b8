"""The real parsers find what no table of ours has, and take what is right.

Megatron-LM and Megatron-DeepSpeed are on no index, and torchtitan is in an environment of its own:
their specs are asked where the variable CLUSTERJOBS_CHECKOUTS names a folder with both.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from asked import answers_of, names, read
from spec_rows import problems_of_row


@pytest.mark.frameworks
@pytest.mark.parametrize("name", names())
def test_the_real_parser_finds_the_wrong_ones_and_takes_the_right_ones(
    name: str, tmp_path: pathlib.Path
) -> None:
    page = read(name)
    rows = [*page.wrong, *page.right]
    assert len({row.id for row in rows}) == len(rows)
    found = dict(zip((row.id for row in rows), answers_of(page, rows, tmp_path), strict=True))
    missed, refused = [], []
    for row in page.wrong:
        answer = found[row.id]
        flags = [one["flag"].lstrip("-+") for one in answer["problems"]]
        says = " ".join(one["message"] for one in answer["problems"])
        if row.expected["says"] not in says or row.expected["flag"] not in flags:
            missed.append((row.id, answer))
    for row in page.right:
        answer = found[row.id]
        if answer["problems"] or answer["not_checked"]:
            refused.append((row.id, answer))
    assert not missed, json.dumps(missed, indent=1)
    assert not refused, json.dumps(refused, indent=1)


@pytest.mark.parametrize("name", names())
def test_none_of_the_wrong_ones_is_found_by_a_table_or_rule_of_ours(name: str) -> None:
    page = read(name)
    assert len(page.wrong) >= 12
    for row in page.wrong:
        problems = [one for one in problems_of_row(row) if not one.info]  # a note says: ask it
        flag = row.expected["flag"] or "no line"
        told = [one for one in problems if flag in one.path]
        assert not told, (row.id, told)
