"""A package of somebody else adds a command, a warning and a block of `plan`."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.registry import forget_installed

ROOT = pathlib.Path(__file__).parents[1]
OUTSIDE = ROOT / "tests/outside_package/clusterjobs_accelerate"
WARNING = "time_limit: 160 GPU-hours are more than 100"

pytestmark = pytest.mark.usefixtures("outside_package")
Clusterjobs = Callable[..., Any]


@pytest.fixture
def spec(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "exp.yaml"
    keys = {"name": "a", "cluster": "p4d-a100", "nodes": 2, "script": "train.py"}
    path.write_text(json.dumps({**keys, "framework": "torchrun", "time_limit": "10:00:00"}))
    return path


def test_its_command_is_listed_after_the_one_that_it_names(clusterjobs: Clusterjobs) -> None:
    listed = re.findall(r"(?m)^  (\w+)  +\S", clusterjobs("--help").out.partition("Commands:")[2])
    assert listed[listed.index("budget") - 1] == "calibrate"


def test_its_command_runs(clusterjobs: Clusterjobs, spec: pathlib.Path) -> None:
    assert clusterjobs("budget", str(spec)).out == "160 GPU-hours\n"


def test_its_command_is_known_to_a_hint(clusterjobs: Clusterjobs) -> None:
    assert "did you mean budget?" in clusterjobs("bugdet").err


def test_its_check_warns_and_refuses_with_strict(
    clusterjobs: Clusterjobs, spec: pathlib.Path
) -> None:
    outcome = clusterjobs("render", str(spec))
    assert (outcome.code, WARNING in outcome.err) == (0, True)
    refused = clusterjobs("render", str(spec), "--strict", "-o", "strict")
    assert (refused.code, WARNING in refused.err) == (1, True)
    assert not pathlib.Path("strict").exists()


def test_its_check_is_silent_for_a_short_job(clusterjobs: Clusterjobs, spec: pathlib.Path) -> None:
    outcome = clusterjobs("render", str(spec), "--set", "time_limit=60")
    assert (outcome.code, "GPU-hours" in outcome.err) == (0, False)


def test_its_block_is_in_the_plan(clusterjobs: Clusterjobs, spec: pathlib.Path) -> None:
    assert "\n\nbudget\n  GPU-hours   160 of 100\n\n" in clusterjobs("plan", str(spec)).out
    data = json.loads(clusterjobs("plan", str(spec), "--json").out)
    assert data["budget"] == {"gpu_hours": 160.0}
    assert "foresight" in data


def test_the_page_shows_the_package() -> None:
    page = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
    shown = re.findall(r"(?s)```python\n(.*?)```", page)
    files = ("budget.py", "budget_command.py")
    assert shown == [(OUTSIDE / name).read_text(encoding="utf-8") for name in files]


def test_a_package_that_is_broken_hides_no_other_command(
    clusterjobs: Clusterjobs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[clusterjobs.commands]\nrepair = nowhere:REPAIR\n")
    monkeypatch.syspath_prepend(tmp_path)
    forget_installed()
    outcome = clusterjobs("--help")
    assert outcome.code == 0
    assert "\n  budget" in outcome.out
    assert "\n  repair" not in outcome.out
    assert "command 'repair' of package broken cannot be loaded" in outcome.err
    refused = clusterjobs("repair")
    assert (refused.code, "cannot be loaded" in refused.err) == (1, True)
