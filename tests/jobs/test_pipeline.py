"""Specs that need others, on a real Slurm: `clusterjobs submit` in the shell of a lab."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rendered_jobs import shape_of

from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab

SPEC = """\
name: {name}
cluster: small
nodes: 1
framework: command
command: [bash, -c, {program}]
logs: /fsx/{folder}/logs
env: {{NUMBER: "0"}}
{more}
"""
PREPARE = "mkdir -p /fsx/{folder}/data && echo words > /fsx/{folder}/data/words"
TRAIN = "test -s /fsx/{folder}/data/words && test $NUMBER != 2 -o -e /fsx/{folder}/mended"
SWEEP = 'sweep: {grid: {env.NUMBER: ["0", "1", "2", "3"]}}'

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("home")
    with running_lab(shape_of("small"), home / "clusterjobs" / "labs" / "pipes", slurm) as running:
        yield running


@pytest.fixture
def fsx(lab: Lab, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The shell of the lab; its /fsx on this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(lab.folder.path.parents[2]))
    monkeypatch.setenv("CLUSTERJOBS_LAB", "pipes")
    monkeypatch.setenv("PATH", f"{lab.folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return lab.folder.shared("/fsx")


def write(name: str, folder: str, program: str, more: str = "") -> None:
    text = SPEC.format(
        name=name, program=json.dumps(program.format(folder=folder)), folder=folder, more=more
    )
    pathlib.Path(f"{name}.yaml").write_text(text)


def status(clusterjobs: Run, spec: str) -> dict[str, Any]:
    done = clusterjobs("status", f"{spec}.yaml", "--json")
    assert done.code in (0, 1), done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def submit(clusterjobs: Run, spec: str, *options: str) -> dict[str, Any]:
    done = clusterjobs("submit", f"{spec}.yaml", "--json", *options)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def end_of(clusterjobs: Run, spec: str, job_id: int) -> dict[str, Any]:
    """The job of the spec, once it has ended."""

    def ended() -> dict[str, Any] | None:
        jobs = {job["job_id"]: job for job in status(clusterjobs, spec)["jobs"]}
        job: dict[str, Any] = jobs.get(str(job_id), {"status": "unknown"})
        return job if job["status"] in ("completed", "failed", "cancelled", "lost") else None

    return until(ended, 120, lambda: json.dumps(status(clusterjobs, spec)))


def test_a_failed_training_stops_what_needs_it_and_the_next_submit_goes_on(
    clusterjobs: Run, fsx: pathlib.Path
) -> None:
    write("prepare", "one", PREPARE)
    write("train", "one", TRAIN, f"needs: [prepare.yaml]\n{SWEEP}")
    write("evaluate", "one", "true", "needs: [train.yaml, prepare.yaml]")
    write("report", "one", "true", "needs: [{spec: train.yaml, on: end}]")
    first = submit(clusterjobs, "evaluate")
    prepared, trained = (need["job_ids"][0] for need in first["needs"])
    report = submit(clusterjobs, "report")
    assert not any(need["submitted"] for need in report["needs"])
    evaluation = end_of(clusterjobs, "evaluate", first["job_id"])
    assert evaluation["status"] == "cancelled"
    reason = f"needs train.yaml (job {trained}), of which 1 of 4 points did not complete"
    assert evaluation["state_reason"] == reason
    assert end_of(clusterjobs, "report", report["job_id"])["status"] == "completed"
    assert end_of(clusterjobs, "prepare", int(prepared))["status"] == "completed"
    (fsx / "one" / "mended").touch()
    again = submit(clusterjobs, "evaluate")
    whys = {need["spec"]: need["why"] for need in again["needs"]}
    assert whys == {
        "prepare.yaml": "there already: completed",
        "train.yaml": "1 of 4 points: 1 failed",
    }
    assert end_of(clusterjobs, "evaluate", again["job_id"])["status"] == "completed"
    assert submit(clusterjobs, "train")["jobs"] == []


def states(clusterjobs: Run, spec: str) -> dict[str, str]:
    """The states of a sweep's points, by their indexes."""
    (sweep,) = status(clusterjobs, spec)["sweeps"]
    return {point["name"][:4]: point["state"] for point in sweep["points"]}


def test_tasks_are_waited_for_alone_if_another_one_of_their_array_has_failed(
    clusterjobs: Run, fsx: pathlib.Path
) -> None:
    folder = fsx / "four"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "words").write_text("words")
    wait = "until test $NUMBER != 1 -o -e /fsx/{folder}/go; do sleep 0.1; done; "
    write("train", "four", wait + TRAIN, SWEEP)
    write("evaluate", "four", "test -e /fsx/{folder}/go", "needs: [train.yaml]")
    submit(clusterjobs, "train")
    others = {"0000": "completed", "0001": "running", "0003": "completed"}
    until(
        lambda: states(clusterjobs, "train") == {**others, "0002": "failed"},
        120,
        lambda: json.dumps(status(clusterjobs, "train")),
    )
    (folder / "mended").touch()
    done = submit(clusterjobs, "evaluate")
    assert done["needs"][0]["why"] == "1 of 4 points: 1 failed"
    until(
        lambda: states(clusterjobs, "train") == {**others, "0002": "completed"},
        120,
        lambda: json.dumps(status(clusterjobs, "train")),
    )
    (folder / "go").touch()
    assert end_of(clusterjobs, "evaluate", done["job_id"])["status"] == "completed"


def test_each_point_follows_its_own(clusterjobs: Run, fsx: pathlib.Path) -> None:
    (fsx / "two" / "data").mkdir(parents=True)
    (fsx / "two" / "data" / "words").write_text("words")
    write("train", "two", TRAIN, SWEEP)
    write("test", "two", "true", f"needs: [{{spec: train.yaml, on: each}}]\n{SWEEP}")
    submit(clusterjobs, "test")

    def ended() -> dict[str, str] | None:
        found = states(clusterjobs, "test")
        return None if {"pending", "running"} & {*found.values()} else found

    last = until(ended, 120, lambda: json.dumps(status(clusterjobs, "test")))
    assert last == {
        "0000": "completed",
        "0001": "completed",
        "0002": "cancelled",
        "0003": "completed",
    }
    (fsx / "two" / "mended").touch()
    again = submit(clusterjobs, "test")
    assert again["needs"][0]["why"] == "1 of 4 points: 1 failed"
    assert [len(job["points"]) for job in again["jobs"]] == [1]
    last = until(ended, 120, lambda: json.dumps(status(clusterjobs, "test")))
    assert {*last.values()} == {"completed"}


def test_a_job_that_failed_or_is_unknown_is_not_waited_for(
    clusterjobs: Run, fsx: pathlib.Path
) -> None:
    write("fails", "three", "exit 7")
    job_id = submit(clusterjobs, "fails")["job_id"]
    assert end_of(clusterjobs, "fails", job_id)["status"] == "failed"
    write("next", "three", "true", f"needs: [{{job: {job_id}}}, {{job: 999999}}]")
    done = clusterjobs("submit", "next.yaml")
    assert done.code == 1
    assert f"needs[0]: job {job_id} did not complete: this one would never start" in done.err
    assert "needs[1]: Slurm does not know job 999999" in done.err
    write("next", "three", "true", f"needs: [{{job: {job_id}, on: failure}}]")
    last = submit(clusterjobs, "next")["job_id"]
    assert end_of(clusterjobs, "next", last)["status"] == "completed"
