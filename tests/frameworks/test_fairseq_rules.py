"""fairseq's rules: each finds a mistake of specs/fairseq.yaml, and none in what is right."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from spec_rows import problems_of_row, rows

from clusterjobs.frameworks.fairseq import framework
from clusterjobs.frameworks.fairseq.rules import ARGUMENT_RULES, TRAINING_RULES, Given
from clusterjobs.frameworks.rules import Rule


def test_every_rule_finds_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()

    def check_rules(rules: Iterable[Rule[Given]], given: Given, _: object) -> None:
        names.update(one.mistake for one in rules if list(one.find(given)))

    monkeypatch.setattr(framework, "check_rules", check_rules)
    for row in rows("wrong"):
        if row.spec["framework"] == "fairseq":
            problems_of_row(row)
    assert names == {one.mistake for one in (*ARGUMENT_RULES, *TRAINING_RULES)}


def test_right_specs_are_not_warned_of() -> None:
    for row in rows("right"):
        if row.spec["framework"] == "fairseq" and row.spec.get("gpus_per_node") != 1:
            assert [one for one in problems_of_row(row) if not one.info] == [], row.id
