"""status, logs and cancel over what jobs have written, with stand-ins for squeue and scancel."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable

import pytest
from stand_in_squeue import row, write_squeue

SPEC = """\
name: tiny
cluster: small
framework: command
command: ["true"]
logs: {logs}
"""
FIRST = (
    '{"attempt": 1, "reason": "cancelled", "checkpoint": "step-10", "exit_code": 143, '
    '"nodes": "n[1-2]", "seconds": 7, "ended": 5}\n'
    '{"attempt": 1, "reason": "node_failure", "checkpoint": "step-10", "exit_code": null, '
    '"nodes": "", "seconds": null, "ended": 9}\n'
)
SECOND = (
    '{"attempt": 2, "reason": "completed", "checkpoint": "step-60", "exit_code": 0, '
    '"nodes": "n[1-2]", "seconds": 80, "ended": 99}\n'
)

RUNNING = row("12", "RUNNING", time_left="3:00", nodes="n[1-2]")
QUEUE = (
    RUNNING,
    row("21", "RUNNING", "other", array="20", index="3"),
    row("20", "PENDING", "other", array="20", index="4"),
)


def write_plan(folder: pathlib.Path, name: str, file: str, *settings: str) -> None:
    plan = {"name": name, "spec": {"file": file, "set": settings}}
    (folder / "plan.json").write_text(json.dumps(plan))


@pytest.fixture
def spec(tmp_path: pathlib.Path) -> pathlib.Path:
    logs = tmp_path / "logs"
    for job_id, text in (("7", FIRST + SECOND), ("12", FIRST + '{"attempt": 2, "rea')):
        (logs / job_id).mkdir(parents=True)
        (logs / job_id / "attempts.jsonl").write_text(text)
        (logs / job_id / "job.log").write_text(f"this is job {job_id}\n")
        write_plan(logs / job_id, "tiny", "exp.yaml")
    file = tmp_path / "exp.yaml"
    file.write_text(SPEC.format(logs=logs))
    return file


@pytest.fixture
def slurm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder on PATH, alone, with a squeue that knows of job 12, and of two tasks of the array 20
    of which one has the array's own id, and a scancel that records."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write_squeue(folder, *QUEUE)
    program(folder / "scancel", f'printf "%s\\n" "$@" > {folder}/cancelled')
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(file: pathlib.Path, line: str) -> None:
    file.write_text(f"#!/bin/bash\n{line}\n")
    file.chmod(0o755)


def test_status_knows_running_and_ended_jobs(
    clusterjobs: Callable[..., object], spec: pathlib.Path, slurm: pathlib.Path
) -> None:
    done = clusterjobs("status", spec)
    assert (done.code, done.err) == (0, "")
    last = ["attempt", "1:", "node_failure"]
    assert [line.split() for line in done.out.splitlines()] == [
        ["job", "state", "attempts", "step", "last", "checkpoint", "why"],
        ["7", "ended", "2", "step-60", "completed,", "exit", "code", "0"],
        ["12", "RUNNING", "2", "step-10", "3:00", "left,", "on", "n[1-2];", *last],
        [],
        ["2", "jobs:", "1", "completed,", "1", "running"],
    ]


def test_status_of_one_job_shows_its_attempts(
    clusterjobs: Callable[..., object], spec: pathlib.Path, slurm: pathlib.Path
) -> None:
    done = clusterjobs("status", spec, "7")
    assert done.out.splitlines()[3:] == [
        "attempt  why it ended  exit code  last checkpoint  seconds  nodes",
        "1        node_failure             step-10",
        "2        completed     0          step-60          80       n[1-2]",
    ]


def test_status_of_one_job_says_how_its_data_stands(
    clusterjobs: Callable[..., object], spec: pathlib.Path, slurm: pathlib.Path
) -> None:
    said = [
        {"node": "", "what": "stage /fsx/books", "said": "1 GB of 2 GB (50 %)", "time": 5},
        {"node": "n1", "what": "stage /scratch/v", "said": "complete, 1 file, 3 kB", "time": 6},
        {"node": "", "what": "stage /fsx/books", "said": "complete, 9 files, 2 GB", "time": 7},
    ]
    text = "".join(f"{json.dumps(one)}\n" for one in said)
    (spec.parent / "logs" / "12" / "data.jsonl").write_text(text + '{"node": "", "what": "sta')
    done = clusterjobs("status", spec, "12")
    assert [line.split(maxsplit=2) for line in done.out.splitlines()[-2:]] == [
        ["stage", "/fsx/books", "complete, 9 files, 2 GB"],
        ["stage", "/scratch/v", "n1    complete, 1 file, 3 kB"],
    ]
    data = json.loads(clusterjobs("status", spec, "--json").out)["jobs"]
    assert [one["data"] for one in data] == [[], [said[2], said[1]]]


def test_status_shows_an_export_that_is_incomplete(
    clusterjobs: Callable[..., object], spec: pathlib.Path, slurm: pathlib.Path
) -> None:
    said = [
        {"node": "", "what": "export /fsx/saved to /kept", "said": "up to date", "time": 5},
        {"node": "", "what": "export /fsx/saved to /kept", "said": "INCOMPLETE: why", "time": 6},
        {"node": "", "what": "export /fsx/logs/12 to s3://b/12", "said": "complete", "time": 7},
    ]
    text = "".join(f"{json.dumps(one)}\n" for one in said)
    (spec.parent / "logs" / "12" / "data.jsonl").write_text(text)
    done = clusterjobs("status", spec, "12")
    assert done.out.splitlines()[1].endswith("; export incomplete")
    assert done.out.splitlines()[-3:] == [
        "export                            how it stands",
        "export /fsx/saved to /kept        INCOMPLETE: why",
        "export /fsx/logs/12 to s3://b/12  complete",
    ]
    job = json.loads(clusterjobs("status", spec, "--json").out)["jobs"][1]
    assert job["data"] == []
    assert job["exports"] == [{**said[1], "incomplete": True}, {**said[2], "incomplete": False}]


def test_status_as_json(
    clusterjobs: Callable[..., object], spec: pathlib.Path, slurm: pathlib.Path
) -> None:
    jobs = json.loads(clusterjobs("status", spec, "--json").out)["jobs"]
    assert [job["state"] for job in jobs] == ["", "RUNNING"]
    assert jobs[0]["attempts"][0]["reason"] == "node_failure"
    assert jobs[1]["time_left"] == "3:00"


def test_status_without_slurm_says_so(
    clusterjobs: Callable[..., object],
    spec: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = clusterjobs("status", spec)
    assert done.code == 0
    assert done.err == "there is no Slurm here: showing only what the jobs have recorded\n"


def test_logs_are_the_newest_jobs_or_those_asked_for(
    clusterjobs: Callable[..., object], spec: pathlib.Path
) -> None:
    assert clusterjobs("logs", spec).out == "this is job 12\n"
    assert clusterjobs("logs", spec, "7").out == "this is job 7\n"
    missing = clusterjobs("logs", spec, "8")
    assert (missing.code, missing.err) == (1, "no job 8 of this spec\n   hint: its jobs: 7, 12\n")


def test_following_ends_with_the_job(
    clusterjobs: Callable[..., object], spec: pathlib.Path, slurm: pathlib.Path
) -> None:
    log = spec.parent / "logs" / "12" / "job.log"
    (slurm / "squeue").rename(slurm / "all-jobs")
    once = f"[[ -e {slurm}/asked ]] || {slurm}/all-jobs $*\n"
    grow = f': > {slurm}/asked\necho "and this is the end" >> {log}'
    program(slurm / "squeue", once + grow)
    done = clusterjobs("logs", spec, "--follow")
    assert done.out.startswith("this is job 12\nand this is the end\n")


def test_a_spec_without_jobs_says_where_it_looked(
    clusterjobs: Callable[..., object], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "exp.yaml").write_text(SPEC.format(logs="/nowhere/logs"))
    done = clusterjobs("status", tmp_path / "exp.yaml")
    assert done.code == 1
    said = "no job of exp.yaml has written to /nowhere/logs; what is in the queue is not known\n"
    assert done.err.startswith(said)  # there is no Slurm


def test_logs_may_lie_where_a_variable_says(
    clusterjobs: Callable[..., object],
    spec: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec.write_text(SPEC.format(logs="${WHERE}/logs"))
    done = clusterjobs("logs", spec)
    assert (done.code, "WHERE is not set here" in done.err) == (1, True)
    monkeypatch.setenv("WHERE", os.fspath(tmp_path))
    assert clusterjobs("logs", spec).out == "this is job 12\n"


def test_specs_that_share_a_logs_folder_see_their_own_jobs_only(
    clusterjobs: Callable[..., object], spec: pathlib.Path, slurm: pathlib.Path
) -> None:
    logs = spec.parent / "logs"
    for job_id, plan in {
        "21": ("other", "exp.yaml"),  # another spec of the same file name
        "22": ("tiny", "copy.yaml"),  # a copy of the spec
        "23": ("renamed", "exp.yaml", "name=renamed"),
    }.items():
        (logs / job_id).mkdir()
        write_plan(logs / job_id, *plan)
    (logs / "24").mkdir()  # written by something else
    (logs / "25").mkdir()
    (logs / "25" / "plan.json").write_text('{"name": "tiny", ')
    jobs = json.loads(clusterjobs("status", spec, "--json").out)["jobs"]
    assert [job["job_id"] for job in jobs] == ["7", "12", "23"]
    refused = clusterjobs("logs", spec, "21")
    assert refused.code == 1
    assert "no job 21 of this spec" in refused.err
    lonely = spec.with_name("lonely.yaml")
    lonely.write_text(spec.read_text())
    refused = clusterjobs("status", lonely)
    assert "no job of lonely.yaml is in the queue, and none has written to" in refused.err
    assert "the jobs of other specs there: 7" in refused.err
