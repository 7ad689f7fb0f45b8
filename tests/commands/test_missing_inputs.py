"""A path of the spec that is not on this machine, though its folder is: a warning."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml


@pytest.fixture
def said(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> Callable[..., str]:
    """What a render of these keys says of what is missing."""

    def call(**keys: Any) -> str:
        base = {"name": "a", "cluster": "small", "framework": "torchrun", "script": "train.py"}
        (folder / "exp.yaml").write_text(yaml.safe_dump({**base, **keys}))
        outcome = clusterjobs("render", "exp.yaml", "-o", "out", "--force")
        assert outcome.code == 0, outcome.err
        return "\n".join(line for line in outcome.err.splitlines() if "there is no" in line)

    return call


def test_a_script_that_is_not_in_the_workdir_that_is_here(
    said: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    told = said(workdir=str(tmp_path))
    assert "exp.yaml:2:9" not in told
    assert f"warning: script: there is no {tmp_path}/train.py, though its folder is here" in told
    (tmp_path / "train.py").touch()
    assert said(workdir=str(tmp_path)) == ""


def test_of_a_folder_that_is_not_here_nothing_is_said(said: Callable[..., str]) -> None:
    assert said(workdir="/nowhere/code") == said(workdir="/nowhere") == ""
    assert said(script="/nowhere/train.py") == ""
    assert said() == ""


def test_of_a_path_that_only_the_nodes_know_nothing_is_said(
    said: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    assert said(workdir="${HOME}/code") == ""
    assert said(script=f"{tmp_path}/${{NAME}}.py") == ""
    assert said(workdir=str(tmp_path), before=[["git", "clone"]]) == ""


def test_a_data_source_that_is_not_here(said: Callable[..., str], tmp_path: pathlib.Path) -> None:
    data = [{"source": f"{tmp_path}/from", "target": f"{tmp_path}/to", "scope": "node"}]
    assert f"data[0].source: there is no {tmp_path}/from," in said(data=data)
    (tmp_path / "to").mkdir()
    assert said(data=data) == ""


@pytest.fixture
def submitted(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """What `submit` says of a spec in the folder `specs`, called in the folder above."""

    def call(*options: str, **keys: Any) -> str:
        spec = {"name": "a", "cluster": "small", "framework": "torchrun", "script": "train.py"}
        (folder / "specs").mkdir(exist_ok=True)
        (folder / "specs/exp.yaml").write_text(yaml.safe_dump({**spec, **keys}))
        (folder / "sbatch").write_text("#!/bin/sh\necho 7\n")
        (folder / "sbatch").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        outcome = clusterjobs("submit", "specs/exp.yaml", *options)
        assert outcome.code == 0, outcome.err
        return str(outcome.err)

    return call


def test_submit_says_it_too(submitted: Callable[..., str], folder: pathlib.Path) -> None:
    assert f"there is no {folder}/train.py" in submitted(workdir=str(folder))


def test_submit_names_a_script_that_is_not_where_the_job_runs(
    submitted: Callable[..., str], folder: pathlib.Path
) -> None:
    assert "the job runs here, where there is no train.py" in submitted()
    (folder / "specs/train.py").touch()
    told = submitted()
    assert "the job runs here, where there is no train.py" in told
    assert "submit in specs, or write `workdir`" in told
    (folder / "train.py").touch()
    told = submitted()
    assert "the job runs train.py of this folder, and not the one beside the spec" in told
    (folder / "specs/train.py").unlink()
    for told in (submitted(), submitted("--", "--chdir=/elsewhere")):
        assert "the job runs" not in told


def test_in_the_shell_of_a_lab_the_inputs_are_in_the_labs_folder(
    said: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = tmp_path / "clusterjobs" / "labs" / "mine"
    (lab / "shared" / "fsx" / "code").mkdir(parents=True)
    facts = {"cluster": "small", "slurm": "22.05", "nodes": [], "shared": ["/fsx"]}
    (lab / "lab.json").write_text(json.dumps(facts))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert said(workdir="/fsx/code") == ""
    monkeypatch.setenv("CLUSTERJOBS_LAB", "mine")
    assert "there is no /fsx/code/train.py, though its folder is here" in said(workdir="/fsx/code")
    (lab / "shared" / "fsx" / "code" / "train.py").touch()
    assert said(workdir="/fsx/code") == ""


def test_a_folder_that_a_mounted_file_system_does_not_have(
    said: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = [str(tmp_path)]
    monkeypatch.setattr("os.path.ismount", lambda path: str(path) in mounts)
    code = f"{tmp_path}/team/code"
    told = said(workdir=code)
    assert told.count("there is no") == 1  # of the script in it, nothing more is said
    assert f"warning: workdir: there is no {code}, though {tmp_path} is here" in told
    assert f"there is no {code}/a.py" in said(script=f"{code}/a.py")
    mounts[:] = ["/", "/home"]
    assert said(workdir=code) == ""
    assert said(workdir="/home/of-nobody/code") == ""


def test_checkpoints_of_a_training_with_other_values(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    def said(**keys: Any) -> str:
        base = {"name": "a", "cluster": "small", "framework": "command", "command": ["./train"]}
        saved = {"path": f"{tmp_path}/saved", **keys.pop("checkpoints", {})}
        spec = {**base, "args": {"lr": 1}, "checkpoints": saved, **keys}
        (folder / "exp.yaml").write_text(yaml.safe_dump(spec))
        outcome = clusterjobs("render", "exp.yaml", "-o", "out", "--force")
        assert outcome.code == 0, outcome.err
        return str(outcome.err)

    warning = "of another training, with another args.lr: the job ends before the training"
    assert warning not in said()
    plan = (folder / "out" / "job.sh").read_text()
    (origin,) = re.findall(r'"origin": "([^"[]+)"', plan)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / ".clusterjobs-origin").write_text(origin.replace(" ", "\n") + "\n")
    assert warning not in said(args={"lr": 2})  # no checkpoint yet
    (tmp_path / "saved" / "step-10").touch()
    assert warning not in said()
    told = said(args={"lr": 2})
    assert f"warning: checkpoints.path: the checkpoints in {tmp_path}/saved are {warning}" in told
    assert warning not in said(args={"lr": 2}, checkpoints={"from": "any"})
    assert warning not in said(args={"lr": 2}, checkpoints={"path": f"{tmp_path}/other"})
    sweep = {"grid": {"args.seed": [1, 2]}}
    first = re.escape(f"the checkpoints in {tmp_path}/saved/seed=1-")
    assert warning not in said(sweep=sweep)
    (point,) = tmp_path.glob("work/out/points.csv")
    label = point.read_text().splitlines()[1].split(",")[1].partition("-")[2]
    (tmp_path / "saved").rename(tmp_path / "all")
    (tmp_path / "saved").mkdir()
    (tmp_path / "all").rename(tmp_path / "saved" / label)
    assert re.search(first, said(args={"lr": 2}, sweep=sweep))
