"""status and logs of jobs that ended before they had a folder below `logs`."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_squeue import row, write_squeue

SPEC = "name: tiny\ncluster: small\nframework: command\ncommand: ['true']\nlogs: logs\n"
REFUSED = "clusterjobs: /fsx/all is not safe from other users: choose a folder of your own"
ENDED = "clusterjobs: job 12 ended with exit code 1 after 3 s: failure"


def program(file: pathlib.Path, body: str) -> None:
    file.write_text(f"#!/bin/bash\n{body}\n")
    file.chmod(0o755)


@pytest.fixture
def spec(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A spec in the working folder, on a machine without Slurm."""
    (folder / "exp.yaml").write_text(SPEC)
    (folder / "bin").mkdir()
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.delenv("CLUSTERJOBS_LAB", raising=False)
    return folder / "exp.yaml"


@pytest.fixture
def slurm(spec: pathlib.Path) -> Callable[..., None]:
    """`slurm(states, output)`: what squeue and scontrol know of ended jobs."""

    def know(states: dict[str, str], output: pathlib.Path) -> None:
        jobs = (row(job_id, state) for job_id, state in states.items())
        write_squeue(spec.parent / "bin", *jobs)
        program(
            spec.parent / "bin" / "scontrol",
            f"echo 'JobId=13 JobName=tiny JobState=FAILED Reason=X ExitCode=1:0 StdOut={output}'",
        )

    return know


def jobs(clusterjobs: Callable[..., Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(clusterjobs("status", "exp.yaml", "--json").out)[
        "jobs"
    ]
    return found


def test_a_refused_job_is_found_by_its_output_file(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    (spec.parent / "tiny-13.out").write_text(f"some line\n{REFUSED}\n")
    done = clusterjobs("status", "exp.yaml")
    assert done.code == 0
    assert done.out.splitlines()[1].split()[:4] == ["13", "ended", "0", "not_started;"]
    reason = REFUSED.removeprefix("clusterjobs: ")
    said = f"job 13 ended before it had a folder: {reason}; its output is in tiny-13.out\n"
    assert said in done.err
    log = clusterjobs("logs", "exp.yaml")
    assert (log.code, log.out) == (0, f"some line\n{REFUSED}\n")
    assert said in log.err
    (job,) = jobs(clusterjobs)
    assert (job["has_folder"], job["log"], job["state_reason"]) == (False, "tiny-13.out", reason)


def test_slurm_names_the_output_file_of_a_job_that_it_remembers(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, slurm: Callable[..., None]
) -> None:
    output = spec.parent / "bin" / "elsewhere.txt"
    output.write_text(REFUSED)
    slurm({"13": "FAILED"}, output)
    (job,) = jobs(clusterjobs)
    assert (job["job_id"], job["state"], job["log"]) == ("13", "FAILED", str(output))
    assert clusterjobs("logs", "exp.yaml", "13").out == REFUSED


def test_a_job_without_any_output_is_named_with_its_state(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, slurm: Callable[..., None]
) -> None:
    slurm({"13": "CANCELLED"}, spec.parent / "nosuch.out")
    done = clusterjobs("status", "exp.yaml", "13")
    assert done.out.splitlines()[1].split() == ["13", "CANCELLED", "0", "not_started"]
    assert "job 13 ended before it had a folder; it has left no output here" in done.err
    log = clusterjobs("logs", "exp.yaml")
    assert log.code == 1
    assert "hint: scontrol show job 13" in log.err


def test_jobs_that_had_a_folder_or_another_name_are_left_out(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, slurm: Callable[..., None]
) -> None:
    slurm({"14": "COMPLETED"}, spec.parent / "nosuch.out")
    (spec.parent / "tiny-12.out").write_text(f"{ENDED}\n")  # with another `logs`
    (spec.parent / "other-11.out").write_text(f"{REFUSED}\n")
    (spec.parent / "tiny-x.out").write_text(f"{REFUSED}\n")
    os.mkfifo(spec.parent / "tiny-10.out")
    (spec.parent / "tiny-9.out").write_text("one line\n")
    folder = spec.parent / "logs" / "9"
    folder.mkdir(parents=True)
    plan = {"name": "tiny", "spec": {"file": "exp.yaml", "set": []}}
    (folder / "plan.json").write_text(json.dumps(plan))
    assert [(job["job_id"], job["has_folder"]) for job in jobs(clusterjobs)] == [("9", True)]


@pytest.mark.parametrize(
    ("option", "file"), [("out/%j.txt", "out/13.txt"), ("%x.%A", "tiny.13"), ("fixed.txt", "")]
)
def test_the_specs_own_output_option_is_obeyed(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, option: str, file: str
) -> None:
    spec.write_text(f"{SPEC}sbatch: {{output: '{option}'}}\n")
    (spec.parent / "out").mkdir()
    for name in ("fixed.txt", *filter(None, [file])):
        (spec.parent / name).write_text(f"{REFUSED}\n")
    assert [job["log"] for job in jobs(clusterjobs)] == list(filter(None, [file]))
