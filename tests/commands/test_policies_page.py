"""docs/policies.md is true: its policy, what is printed for it, its tables."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.sites import folders as site_folders
from clusterjobs.sites.policy import Limits, Rule, Selection

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")
SPEC = "name: a\ncluster: p4d-a100\nnodes: 4\ntime_limit: 1:00:00\n"
SPEC += "framework: command\ncommand: ./run\n"
ACCOUNT = "sbatch: {account: chem}\n"


@pytest.fixture
def site(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (found,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    path = folder / "our-site"
    for name, spec in {"plain": SPEC.replace("4\n", "1\n", 1), "large-job": SPEC}.items():
        (path / "tests" / name).mkdir(parents=True)
        (path / "tests" / name / "spec.yaml").write_text(spec + ACCOUNT)
    rules = "groups: [students]\nrules: [small-jobs-of-students]\n"
    (path / "tests" / "large-job" / "rules.yaml").write_text(rules)
    (path / "policy.yaml").write_text(found)
    (folder / "exp.yaml").write_text(SPEC)
    monkeypatch.setenv(site_folders.VARIABLE, "our-site")
    return path


def test_commands_print_what_the_page_shows(
    clusterjobs: Callable[..., Any], site: pathlib.Path
) -> None:
    shown = re.findall(r"```console\n\$ clusterjobs (.*?)\n(.*?)```", PAGE, re.DOTALL)
    assert len(shown) == 3
    for command, expected in shown:
        outcome = clusterjobs(*command.split())
        assert outcome.out + outcome.err == expected


def test_every_key_is_on_the_page() -> None:
    keys = set(re.findall(r"(?m)^\| `(\w+)", PAGE))
    assert {field.alias or name for name, field in Rule.model_fields.items()} <= keys
    for name in (*Selection.model_fields, *Limits.model_fields):
        assert f"`{name}`" in PAGE or f"{name}:" in PAGE
