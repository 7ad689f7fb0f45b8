"""docs/frameworks/mistakes.md has a row for every rule. `--update-goldens` writes the rows anew."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable
from typing import Any

import pytest

from clusterjobs.frameworks import deepspeed, ds_config_rules, flags, lightning, torchtitan
from clusterjobs.frameworks import huggingface as huggingface_rules
from clusterjobs.frameworks.fairseq import rules as argument_rules
from clusterjobs.frameworks.fairseq import rules as training_rules
from clusterjobs.frameworks.gpt_neox.rules import MODEL_RULES, TRAINING_RULES
from clusterjobs.frameworks.megatron_deepspeed.framework import RULES
from clusterjobs.frameworks.megatron_lm.framework import RULES as MEGATRON_LM_RULES
from clusterjobs.frameworks.rules import Rule

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "frameworks" / "mistakes.md"
RULE_SETS: dict[str, Iterable[Rule[Any]]] = {
    "deepspeed": (*ds_config_rules.RULES, *deepspeed.RULES),
    "megatron-deepspeed": RULES,
    "megatron-lm": MEGATRON_LM_RULES,
    "gpt-neox": (*TRAINING_RULES, *MODEL_RULES),
    "huggingface": (*huggingface_rules.RULES, *huggingface_rules.SILENT_RULES),
    "lightning": lightning.RULES,
    "torchtitan": torchtitan.RULES,
    "fairseq": (*argument_rules.ARGUMENT_RULES, *training_rules.TRAINING_RULES),
}


def table_of(rules: Iterable[Rule[Any]]) -> str:
    rows = ["| mistake | what the framework does | clusterjobs |", "|---|---|---|"]
    for one in rules:
        said = "warned of" if one.warning else "refused"
        rows.append(f"| {one.mistake} | {one.consequence} ({one.source}) | {said} |")
    return "\n".join(rows)


def tables_of_flags() -> str:
    rows = ["| program | version | day | flags and keys | read from |", "|---|---|---|---|---|"]
    names = sorted(path.stem for path in pathlib.Path(flags.__file__).parent.glob("*.json"))
    for one in map(flags.table, names):
        count = f"{len(one.types):,}"
        rows.append(f"| {one.program} | {one.version} | {one.date} | {count} | {one.source} |")
    return "\n".join(rows)


@pytest.mark.parametrize("name", RULE_SETS)
def test_the_page_has_a_row_for_every_rule(name: str, request: pytest.FixtureRequest) -> None:
    check_block(f"rules: {name}", table_of(RULE_SETS[name]), request)


def test_the_page_names_the_version_and_day_of_every_table(request: pytest.FixtureRequest) -> None:
    check_block("tables", tables_of_flags(), request)


def check_block(name: str, text: str, request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text(encoding="utf-8")
    start = f"<!-- {name} -->\n"
    between = re.compile(re.escape(start) + r"(.*?)<!-- end -->", re.DOTALL)
    wanted = f"{text}\n"
    if request.config.getoption("--update-goldens"):
        PAGE.write_text(between.sub(lambda _: f"{start}{wanted}<!-- end -->", page))
        page = PAGE.read_text(encoding="utf-8")
    found = between.search(page)
    assert found
    assert found[1] == wanted


def test_every_rule_has_a_source_and_no_pipe_that_would_end_its_cell() -> None:
    for rules in RULE_SETS.values():
        for one in rules:
            assert one.source
            assert "|" not in one.mistake + one.consequence + one.source
