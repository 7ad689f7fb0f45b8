"""docs/sweeps.md and docs/comparison.md: their specs render, and the numbers of lines are right."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from clusterjobs.runs.jobs.states import STATES
from clusterjobs.spec.keys.sweep import Sweep

DOCS = pathlib.Path(__file__).parents[1] / "docs"
COMPARISON = (DOCS / "comparison.md").read_text(encoding="utf-8")
SWEEPS = (DOCS / "sweeps.md").read_text(encoding="utf-8")
TASKS = ("Sweep", "Resume", "Pack", "Pipeline")
TOOLS = ("clusterjobs", "submitit", "Hydra")


def code_of(task: str, tool: str) -> list[str]:
    """The blocks of a tool's section; shell lines are not counted."""
    section = COMPARISON.partition(f"\n## {task}\n")[2].partition("\n## ")[0]
    part = section.partition(f"\n### {tool}\n")[2].partition("\n### ")[0]
    return re.findall(r"```(?:yaml|python)\n(.*?)```", part, re.DOTALL)


def lines(blocks: list[str]) -> int:
    """Lines of code, without blank ones and comments."""
    written = [line.strip() for block in blocks for line in block.splitlines()]
    return sum(bool(line) and not line.startswith("#") for line in written)


def table() -> dict[str, list[str]]:
    rows = re.findall(r"(?m)^\| \[.*?\]\(#(\w+)\).*?\| (.*) \|$", COMPARISON)
    return {task: cells.split(" | ") for task, cells in rows}


@pytest.mark.parametrize("task", TASKS)
def test_the_lines_in_the_table_are_those_of_the_code(task: str) -> None:
    cells = dict(zip(TOOLS, table()[task.lower()], strict=True))
    blocks = {tool: code_of(task, tool) for tool in TOOLS}
    if task == "Resume":  # "the same spec"
        blocks["clusterjobs"] = code_of("Sweep", "clusterjobs")
    counted = {tool: lines(blocks[tool]) for tool in TOOLS if blocks[tool]}
    assert counted == {tool: int(cells[tool].partition(",")[0]) for tool in counted}
    assert {"clusterjobs", "submitit"} <= counted.keys()


def test_the_specs_of_the_comparison_render(
    clusterjobs: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    specs = [text for task in TASKS for text in code_of(task, "clusterjobs")]
    names = [yaml.safe_load(text)["name"] for text in specs]
    assert len(set(names)) == 5
    for name, text in zip(names, specs, strict=True):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    for name in names:
        outcome = clusterjobs("render", tmp_path / f"{name}.yaml", "-o", tmp_path / name)
        assert outcome.code == 0, outcome.err


def test_the_sweep_of_the_page_renders(
    clusterjobs: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    text = re.findall(r"```yaml\n(.*?)```", SWEEPS, re.DOTALL)[0]
    (tmp_path / "sweep.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "exp.yaml").write_text(
        "{cluster: small, framework: command, command: ./run, batch: {global: 64}, time_limit: 9}"
    )
    outcome = clusterjobs("render", tmp_path / "sweep.yaml", "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert "gpt: 6 points in one script" in outcome.out


def test_every_key_of_a_sweep_and_every_state_is_on_the_page() -> None:
    first = re.findall(r"(?m)^\| (`.*?) \|", SWEEPS)
    listed = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    assert Sweep.model_fields.keys() <= listed
    assert {*STATES} - {"unknown"} <= listed
