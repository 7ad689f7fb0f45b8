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
    as_expected: Callable[[Case, str, int], str],
) -> None:
    case.write(folder)
    outcome = clusterjobs(*case.arguments)
    said = (outcome.out + outcome.err).replace(str(folder.resolve()), "<here>")
    lines = as_expected(case, said, outcome.code).splitlines()
    problems = [line for line in lines if re.match(r"cluster\.yaml:\d+:\d+ ", line)]
    assert lines[-1] == "exit code 1"
    assert problems
    assert sum(line.startswith("   hint: ") for line in lines) == len(problems)
