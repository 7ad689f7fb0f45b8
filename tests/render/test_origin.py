"""A job resumes the checkpoints of its own training, and not those of another."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from script_runs import run_script

Clusterjobs = Callable[..., Any]
SPEC = """\
name: tiny
cluster: small
framework: command
command: [bash, -c, "echo saved > {folder}/saved/latest", train.py]
args: {{lr: 1e-3, steps: 100}}
nodes: 1
logs: logs
checkpoints: {{path: "{folder}/saved", marker: latest}}
"""


@pytest.fixture
def job(folder: pathlib.Path, clusterjobs: Clusterjobs) -> Callable[..., Any]:
    """`job("args.lr=1")`: runs the spec with these settings."""
    (folder / "exp.yaml").write_text(SPEC.format(folder=folder))

    def run(*settings: str) -> Any:
        options = [word for one in settings for word in ("--set", one)]
        done = clusterjobs("render", "exp.yaml", "--force", "-o", "out", *options)
        assert done.code == 0, done.err
        return run_script(folder, (folder / "out" / "job.sh").read_text())

    return run


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("args.lr=1e-2", "args.lr"),
        ("args.seed=7", "args.seed"),
        ("model={hidden: 64, layers: 2, heads: 2, vocab: 100, sequence: 64}", "model.heads"),
    ],
)
def test_checkpoints_of_another_training_are_not_resumed(
    job: Callable[..., Any], setting: str, named: str
) -> None:
    assert job().code == 0
    end = job(setting)
    assert (end.code, end.reasons[-1]) == (1, "not_started"), end.log
    assert f"with another {named}" in end.log
    assert "`checkpoints: {from: any}`" in end.log
    assert job(setting, "checkpoints.from=any").code == 0
    assert job(setting).code == 0  # they are its own now
    assert job().code == 1


@pytest.mark.parametrize(
    "setting", ["args.steps=200", "args.save-every=5", "time_limit=1:00:00", "env.LEVEL=2"]
)
def test_a_training_that_is_longer_or_watched_otherwise_goes_on(
    job: Callable[..., Any], setting: str
) -> None:
    assert job().code == 0
    assert job(setting).code == 0


def test_a_folder_without_checkpoints_is_anybodys(
    job: Callable[..., Any], folder: pathlib.Path
) -> None:
    assert job().code == 0
    (folder / "saved" / "latest").unlink()
    assert job("args.lr=1e-2").code == 0
    (folder / "saved" / ".clusterjobs-origin").unlink()  # of an earlier version
    assert job("args.lr=1e-1").code == 0


def test_options_of_a_command_are_settings() -> None:
    from clusterjobs.runs.content import _leaves

    command = ["python", "train.py", "--lr", "1e-3", "--max-steps=5", "-1", "opt.lr=2", "--fast"]
    assert dict(_leaves("command", command)) == {
        "command": ["python", "train.py", "-1"],
        "command.lr": ["1e-3"],
        "command.opt.lr": ["2"],
        "command.fast": [],
    }
