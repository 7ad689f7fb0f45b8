"""With --json, stdout is valid JSON whatever happens; errors are in it as `problems`."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from clusterjobs.cli import main
from clusterjobs.cli import plan as plan_command

# What makes each command fail, if anything but a wrong option can.
FAILING = {
    "plan": ["nosuch.yaml"],
    "render": ["nosuch.yaml"],
    "diff": ["nosuch.yaml"],
    "run": ["wrong.yaml"],
    "logs": ["exp.yaml"],
    "advise": ["exp.yaml"],
    "calibrate": ["exp.yaml"],
    "submit": ["wrong.yaml"],
    "status": ["exp.yaml", "4711"],
    "report": ["nosuch.log"],
    "results": ["exp.yaml"],
    "cancel": ["nosuch"],
    "clusters list": [],
    "clusters show": ["nosuch"],
    "clusters diff": ["small", "wrong.yaml"],
    "clusters upgrade": ["nosuch.yaml"],
    "validate": ["exp.yaml", "nosuch"],
    "lab up": ["nosuch"],
    "lab run": ["job.sh"],
    "lab status": ["--name", "a b"],
    "lab list": [],
    "show": ["nosuch.yaml"],
    "policy explain": ["nosuch.yaml"],
    "policy list": [],
    "policy test": ["--site", "nosuch"],
    "templates list": [],
    "templates show": ["nosuch"],
    "templates check": ["--site", "nosuch"],
    "templates test": ["--site", "nosuch"],
    "impact": ["nosuch"],
    "import": ["nosuch"],
    "explain": ["nosuch"],
    "examples": ["nosuch"],
}


def commands_with_json(group: click.Group, name: str = "") -> Iterator[str]:
    context = click.Context(group)
    for one in group.list_commands(context):
        command = group.get_command(context, one)
        if isinstance(command, click.Group):
            yield from commands_with_json(command, f"{name}{one} ")
        elif command and any("--json" in param.opts for param in command.params):
            yield f"{name}{one}"


@pytest.fixture(autouse=True)
def files(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.delenv("CLUSTERJOBS_LAB", raising=False)
    spec = "name: a\ncluster: small\nframework: command\ncommand: ['true']\nlogs: logs\n"
    (folder / "exp.yaml").write_text(spec)
    (folder / "wrong.yaml").write_text(f"{spec}nodez: 2\nqueue: nöne\n")
    (folder / "job.sh").write_text("#!/bin/bash\n")


def test_every_command_with_json_is_tried_here() -> None:
    assert sorted(commands_with_json(main.cli)) == sorted(FAILING)


@pytest.mark.parametrize("name", [name for name, words in FAILING.items() if words])
def test_invalid_input_is_json(clusterjobs: Callable[..., Any], name: str) -> None:
    done = clusterjobs(*name.split(), *FAILING[name], "--json")
    assert done.code in (1, 2)
    data = json.loads(done.out)
    rows = data["files"] if name == "validate" else [data]
    problems = [problem for row in rows for problem in row["problems"]]
    assert [one for one in problems if one["level"] == "error"]
    for problem in problems:
        assert problem["what"] in done.err or done.err == ""


@pytest.mark.parametrize("name", FAILING)
def test_a_wrong_option_is_json(clusterjobs: Callable[..., Any], name: str) -> None:
    done = clusterjobs(*name.split(), "--json", "--nosuch")
    assert done.code == 2
    (problem,) = json.loads(done.out)["problems"]
    assert problem["what"] in done.err


def test_an_internal_error_is_json(
    clusterjobs: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(plan_command, "load", fail)
    done = clusterjobs("plan", "exp.yaml", "--json")
    assert done.code == 3
    assert json.loads(done.out)["problems"][0]["what"].startswith("internal error")


def test_without_json_stdout_is_empty(clusterjobs: Callable[..., Any]) -> None:
    for words in (["plan", "nosuch.yaml"], ["plan", "--nosuch"], ["submit", "x", "--", "--json"]):
        assert clusterjobs(*words).out == ""


def test_json_needs_no_encoding(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    (folder / "exp.yaml").write_text((folder / "exp.yaml").read_text() + "env: {A: größer}\n")
    done = clusterjobs("plan", "exp.yaml", "--json")
    assert done.out.isascii()
    (row,) = (row for row in json.loads(done.out)["sections"]["environment"] if row["name"] == "A")
    assert row["value"] == "größer"
