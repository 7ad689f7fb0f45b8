"""The cases in cases/imports: saved texts of a cluster, and what the import prints, exactly.

A remark says which cluster it is; their facts are those of real clusters that public documentation,
issues and code show. tests/case_files.py says how to add one.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from case_files import Case, read_cases

from clusterjobs.clusters.described.source import DescriptionSource

CASES = read_cases("imports/*.txt")
WRONG = [case for case in CASES if case.path.stem == "wrong_texts"]
AsExpected = Callable[[Case, str, int], str]


@pytest.mark.parametrize("case", [case for case in CASES if case not in WRONG], ids=str)
def test_import_prints_a_description_that_can_be_read(
    case: Case, clusterjobs: Callable[..., object], as_expected: AsExpected, folder: pathlib.Path
) -> None:
    case.write(folder)
    outcome = clusterjobs(*case.arguments)
    as_expected(case, outcome.out + outcome.err, outcome.code)
    assert outcome.code == 0
    facts = DescriptionSource(outcome.out, "cluster.yaml").facts
    assert all(partition.node_groups for partition in facts.partitions)


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_wrong_text_is_refused_with_a_hint(
    case: Case, clusterjobs: Callable[..., object], as_expected: AsExpected, folder: pathlib.Path
) -> None:
    case.write(folder)
    outcome = clusterjobs(*case.arguments)
    text = as_expected(case, outcome.out + outcome.err, outcome.code)
    assert outcome.code in (1, 2)
    assert any(line.startswith(("   hint: ", "Error: ")) for line in text.splitlines())
