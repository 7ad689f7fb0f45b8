from __future__ import annotations

import pytest
from single_changes import Change, base_text, find_problems, load_changes

from clusterjobs.errors import Problem

CHANGES = load_changes()

pytestmark = [pytest.mark.aws, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pcluster")
pytest.importorskip("moto")


def level(problem: Problem) -> str:
    return "info" if problem.info else "warning" if problem.warning else "error"


def caret(problem: Problem) -> str:
    """The line, with » at the position of the caret."""
    assert problem.where
    line, start = problem.where.source, problem.where.column - 1
    return (line[:start] + "»" + line[start:]).strip()


def rows_of(problems: list[Problem]) -> list[tuple[str, str, str, str]]:
    return [(level(p), p.validator, caret(p), p.what) for p in problems]


def matches(row: tuple[str, str, str, str], change: Change) -> bool:
    return row[:3] == (change.level, change.validator, change.at) and change.text in row[3]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_the_finding_of_a_change_is_at_the_change(change: Change) -> None:
    found = rows_of(find_problems(change.config(), change.account))
    assert any(matches(row, change) for row in found), found


@pytest.mark.parametrize("base", sorted({change.base for change in CHANGES}))
def test_the_base_of_a_change_does_not_have_the_finding(base: str) -> None:
    found = rows_of(find_problems(base_text(base)))
    assert "error" not in {row[0] for row in found}
    for change in CHANGES:
        if change.base == base:
            assert not any(matches(row, change) for row in found), change.name


def test_table_is_long_enough_and_has_no_row_twice() -> None:
    assert len({change.name for change in CHANGES}) == len(CHANGES) >= 60
    assert sum(bool(change.validator) for change in CHANGES) >= 55
