"""Specs and configs that are made to take long: they are read in time, or a limit is named."""

from __future__ import annotations

import pytest

from clusterjobs.console import show_problems
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.spec.load import load_spec
from clusterjobs.yaml import document

BASE = "name: a\ncluster: small\nframework: command\ncommand: [./run]\n"


def problems_of(text: str, *settings: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as error:
        load_spec(text, "exp.yaml", option_models(), settings=settings)
    return error.value.problems


def data_sets(count: int) -> str:
    rows = (f"  - {{source: /fsx/s{i}, target: /fsx/t{i}}}\n" for i in range(count))
    return f"{BASE}data:\n{''.join(rows)}"


def test_a_list_whose_items_are_compared_has_a_limit() -> None:
    assert len(load_spec(data_sets(500), "exp.yaml", option_models()).spec.data) == 500
    (problem,) = problems_of(data_sets(501))
    assert (problem.path, problem.what) == ("data", "more than 500 items")


def test_a_setting_cannot_be_nested_without_end() -> None:
    (problem,) = problems_of(BASE, f"args{'.a' * 5000}=1")
    assert problem.what == "nested deeper than 60 levels"
    assert problem.where is not None
    assert problem.where.file == "--set"


def bomb(levels: int) -> str:
    """Each level merges the one above eight times: 8 ** levels keys, if each merge is followed."""
    lines = ["a0: &a0 {k: 1}"]
    lines += [
        f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 8)}], k{level}: 1}}"
        for level in range(1, levels + 1)
    ]
    return "\n".join(lines)


def test_merge_keys_cannot_multiply_without_end() -> None:
    value = document.load(bomb(40), "config.yaml", "1.1").value
    assert value["a40"] == {"k": 1, **{f"k{level}": 1 for level in range(1, 41)}}


def test_a_mapping_that_merges_itself_gets_nothing_from_it() -> None:
    assert document.load("a: &a {<<: *a, b: 1}", "config.yaml", "1.1").value == {"a": {"b": 1}}


def test_of_many_problems_the_first_hundred_are_shown_and_errors_before_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warnings = [Problem(f"warning {number}", warning=True) for number in range(100)]
    show_problems([*warnings, Problem("error a"), Problem("error b")])
    shown = capsys.readouterr().err.splitlines()
    assert shown[:3] == ["error a", "error b", "warning: warning 0"]
    assert shown[-1] == "2 problems; the first 100 of 102 messages are shown"
    assert len(shown) == 101
