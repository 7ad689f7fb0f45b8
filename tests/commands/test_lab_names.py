"""The labs of a user by name: which one a command uses, which there are, and which are not."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable

import pytest

from clusterjobs.lab.command import options_after_job
from clusterjobs.lab.folder import LabFolder


@pytest.fixture
def labs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder of the user's labs: `alive` has a running init, `dead` has lost its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("CLUSTERJOBS_LAB", raising=False)
    folder = tmp_path / "clusterjobs" / "labs"
    started = pathlib.Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    for name, ticks in (("alive", started), ("dead", "1")):
        (folder / name).mkdir(parents=True)
        facts = {"cluster": "p4d-a100", "slurm": "24.11.5", "nodes": [], "shared": ["/fsx"]}
        (folder / name / "lab.json").write_text(json.dumps(facts))
        (folder / name / "init").write_text(f"{os.getpid()} {ticks}")
    return folder


def test_list_shows_each_lab_and_whether_it_runs(
    clusterjobs: Callable[..., object], labs: pathlib.Path
) -> None:
    rows = [line.split() for line in clusterjobs("lab", "list").out.splitlines()]
    assert [(row[0], row[1], row[2], row[-2]) for row in rows] == [
        ("name", "cluster", "Slurm", "state"),
        ("alive", "p4d-a100", "24.11.5", "running"),
        ("dead", "p4d-a100", "24.11.5", "stopped"),
    ]
    data = json.loads(clusterjobs("lab", "list", "--json").out)
    assert [(row["name"], row["up"]) for row in data] == [("alive", True), ("dead", False)]
    assert data[0]["started"] == int((labs / "alive" / "lab.json").stat().st_mtime)


def test_list_shows_a_damaged_lab_too(
    clusterjobs: Callable[..., object], labs: pathlib.Path
) -> None:
    (labs / "dead" / "lab.json").write_text("{")
    done = clusterjobs("lab", "list")
    assert done.code == 0
    assert done.out.splitlines()[-1].split()[:3] == ["dead", "?", "?"]


def test_without_labs_list_says_so(
    clusterjobs: Callable[..., object], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = clusterjobs("lab", "list")
    assert (done.code, done.out) == (0, "")
    assert "you have no labs" in done.err
    assert json.loads(clusterjobs("lab", "list", "--json").out) == []


@pytest.mark.parametrize("more", [[], ["--delete"]])
def test_down_of_no_lab_is_an_error_and_creates_nothing(
    clusterjobs: Callable[..., object], labs: pathlib.Path, more: list[str]
) -> None:
    done = clusterjobs("lab", "down", "--name", "nosuch", *more)
    assert (done.code, done.out) == (1, "")
    assert done.err == "there is no lab named nosuch\n   hint: your labs: alive, dead\n"
    assert not (labs / "nosuch").exists()


def test_down_of_a_dead_lab_works(clusterjobs: Callable[..., object], labs: pathlib.Path) -> None:
    done = clusterjobs("lab", "down", "--name", "dead")
    assert done.code == 0
    assert 'the lab "dead" was not running' in done.err
    assert not (labs / "dead" / "init").exists()
    assert clusterjobs("lab", "down", "--name", "dead", "--delete").code == 0
    assert not (labs / "dead").exists()


@pytest.mark.parametrize("words", [["--name", "dead", "JOB"], ["JOB", "--name", "dead"]])
def test_run_uses_the_lab_that_is_named_before_or_after_the_job(
    clusterjobs: Callable[..., object], labs: pathlib.Path, words: list[str]
) -> None:
    job = labs / "job.sh"
    job.write_text("#!/bin/bash\n")
    done = clusterjobs("lab", "run", *(job if word == "JOB" else word for word in words))
    assert done.code == 1
    assert (
        'the lab "dead" is not running\n   hint: clusterjobs lab up CLUSTER --name dead\n'
        in done.err
    )


def test_after_the_job_only_three_options_are_not_sbatchs() -> None:
    words = ["--set", "a=1", "--nodes=2", "--json", "--name=x", "-o", "log", "--set=b=2"]
    found = options_after_job(words)
    assert found == (["a=1", "b=2"], ["x"], True, ["--nodes=2", "-o", "log"])


@pytest.mark.parametrize(("name", "option"), [("lab", ""), ("mine", " --name mine")])
def test_hints_name_the_lab_unless_it_is_the_default_one(name: str, option: str) -> None:
    assert LabFolder(pathlib.Path("/labs") / name).name_option == option
