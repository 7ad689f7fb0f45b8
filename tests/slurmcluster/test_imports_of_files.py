"""The cases in cases/imports: saved texts of a cluster, and what the import prints, exactly.

A remark says which cluster it is; their facts are those of real clusters that public documentation,
issues and code show. tests/case_files.py says how to add one.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from case_files import Case, read_cases

from clusterjobs.slurmcluster.source import DescriptionSource

CASES = read_cases("imports/*.txt")
WRONG = [case for case in CASES if case.path.stem == "wrong_texts"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_import_prints_exactly_what_is_expected(
    case: Case,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
    request: pytest.FixtureRequest,
) -> None:
    case.write(folder)
    outcome = clusterjobs(*case.arguments)
    text = case.printed(outcome.out + outcome.err, outcome.code)
    if request.config.getoption("--update-goldens"):
        case = case.update(text)
    assert text == case.expected, case.place


@pytest.mark.parametrize("case", [case for case in CASES if case not in WRONG], ids=str)
def test_imported_description_is_read(
    case: Case, clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    case.write(folder)
    outcome = clusterjobs(*case.arguments)
    assert outcome.code == 0
    facts = DescriptionSource(outcome.out, "cluster.yaml").facts
    assert all(partition.node_groups for partition in facts.partitions)


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_every_wrong_text_has_a_hint(case: Case) -> None:
    lines = case.expected.splitlines()
    assert lines[-1] in ("exit code 1", "exit code 2")
    assert any(line.startswith(("   hint: ", "Error: ")) for line in lines)
