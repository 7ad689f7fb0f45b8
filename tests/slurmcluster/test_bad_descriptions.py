"""The cases in cases/descriptions: wrong descriptions, and what is said of each, exactly.

tests/case_files.py says how to add one.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest
from case_files import Case, read_cases

CASES = read_cases("descriptions/*.txt")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_wrong_description_is_answered_exactly_as_expected(
    case: Case,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
    request: pytest.FixtureRequest,
) -> None:
    case.write(folder)
    outcome = clusterjobs(*case.arguments)
    said = (outcome.out + outcome.err).replace(str(folder.resolve()), "<here>")
    text = case.printed(said, outcome.code)
    if request.config.getoption("--update-goldens"):
        case = case.update(text)
    assert text == case.expected, case.place


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case_has_a_place_and_a_hint(case: Case) -> None:
    lines = case.expected.splitlines()
    problems = [line for line in lines if re.match(r"cluster\.yaml:\d+:\d+ ", line)]
    assert lines[-1] == "exit code 1"
    assert problems
    assert sum(line.startswith("   hint: ") for line in lines) == len(problems)
