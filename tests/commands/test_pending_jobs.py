"""status, logs and cancel for jobs that have written nothing, among others, and in a lab."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable

import pytest
import stand_in_squeue

SPEC = "name: tiny\ncluster: small\nframework: command\ncommand: ['true']\nlogs: {logs}\n"


def row(job_id: int, state: str, name: str = "tiny", **more: str) -> dict[str, str]:
    return stand_in_squeue.row(str(job_id), state, name, reason="Resources", **more)


@pytest.fixture
def spec(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "exp.yaml"
    file.write_text(SPEC.format(logs=tmp_path / "logs"))
    return file


@pytest.fixture
def queue(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pathlib.Path]:
    """`queue(*rows)`: what squeue answers; the folder of it and of a scancel that records."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def answer(*rows: dict[str, str]) -> pathlib.Path:
        stand_in_squeue.write_squeue(folder, *rows)
        program(folder / "scancel", f'printf "%s\\n" "$@" > {folder}/cancelled')
        return folder

    return answer


def program(file: pathlib.Path, body: str) -> None:
    file.write_text(f"#!/bin/bash\n{body}\n")
    file.chmod(0o755)


def write_job(folder: pathlib.Path, name: str = "tiny", file: str = "exp.yaml") -> None:
    folder.mkdir(parents=True)
    plan = {"name": name, "spec": {"file": file, "set": []}}
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "job.log").write_text(f"this is job {folder.name}\n")


def test_status_shows_a_pending_job_that_has_written_nothing(clusterjobs, spec, queue) -> None:
    queue(row(13, "PENDING"))
    done = clusterjobs("status", spec)
    assert (done.code, done.err) == (0, "")
    why = ["waits:", "no", "nodes", "are", "free", "yet", "(Resources)"]
    assert done.out.splitlines()[1].split() == ["13", "PENDING", "0", *why]
    (job,) = json.loads(clusterjobs("status", spec, "13", "--json").out)["jobs"]
    assert (job["state"], job["state_reason"], job["attempts"]) == ("PENDING", "Resources", [])


@pytest.mark.parametrize(
    ("state", "reason", "status"),
    [
        ("PENDING", "requeued", "pending"),
        ("NODE_FAIL", "node_failure", "failed"),
        ("CANCELLED", "cancelled", "cancelled"),
    ],
)
def test_a_lost_node_is_not_shown_as_cancelled(
    clusterjobs, spec, queue, state: str, reason: str, status: str
) -> None:
    write_job(spec.parent / "logs" / "13")
    ended = {"attempt": 1, "reason": "cancelled", "exit_code": 143}
    (spec.parent / "logs/13/attempts.jsonl").write_text(json.dumps(ended) + "\n")
    queue(row(13, state))
    (job,) = json.loads(clusterjobs("status", spec, "--json").out)["jobs"]
    assert (job["status"], [one["reason"] for one in job["attempts"]]) == (status, [reason])


@pytest.mark.parametrize(
    ("reason", "before", "said"),
    [
        ("time_limit", "got SIGUSR1: the time limit is near", ""),
        ("failure", "step prepare ended with exit code 3", "step prepare ended with exit code 3; "),
        ("failure", "anything else", ""),
        ("node_failure", "node a is gone", "node a is gone; "),
    ],
)
def test_status_says_that_no_restart_is_left(
    clusterjobs, spec, queue, reason: str, before: str, said: str
) -> None:
    folder = spec.parent / "logs" / "13"
    write_job(folder)
    (folder / "attempts.jsonl").write_text(
        json.dumps({"attempt": 3, "reason": reason, "exit_code": 1}) + "\n"
    )
    refusal = f"no restart: restarts.{reason} allows 2, all used"
    end = f"clusterjobs: job 13 ended with exit code 1 after 9 s: {reason}"
    (folder / "job.log").write_text(f"clusterjobs: {before}\nclusterjobs: {refusal}\n{end}\n")
    queue()
    done = clusterjobs("status", spec)
    assert done.out.splitlines()[1].endswith(f"{reason}, exit code 1; {said}{refusal}"), done.out
    log = (folder / "job.log").read_text()  # of a job that asks for no restart after this
    (folder / "job.log").write_text(log.replace("allows 2, all used", "allows 0"))
    assert "no restart" not in clusterjobs("status", spec).out


def test_a_pending_job_of_another_name_user_or_spec_is_not_shown(clusterjobs, spec, queue) -> None:
    write_job(spec.parent / "logs" / "9")
    write_job(spec.parent / "logs" / "12", file="other.yaml")  # requeued, so it has a folder
    queue(
        row(10, "PENDING", name="other"),
        row(11, "PENDING", user=str(os.getuid() + 1)),
        row(12, "PENDING"),
    )
    jobs = json.loads(clusterjobs("status", spec, "--json").out)["jobs"]
    assert [job["job_id"] for job in jobs] == ["9"]


def test_status_prints_json_where_there_is_no_job(clusterjobs, spec, queue) -> None:
    queue()
    done = clusterjobs("status", spec, "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "slurm": True,
        "slurm_problem": "",
        "jobs": [],
        "sweeps": [],
        "problems": [],
    }
    unknown = clusterjobs("status", spec, "99", "--json")
    assert unknown.code == 1
    (problem,) = json.loads(unknown.out)["problems"]
    assert "no job of exp.yaml is in the queue" in problem["what"]
    assert "no job of exp.yaml is in the queue" in unknown.err


def test_logs_of_a_pending_job_say_that_it_waits(clusterjobs, spec, queue) -> None:
    write_job(spec.parent / "logs" / "9")
    queue(row(13, "PENDING"))
    assert clusterjobs("logs", spec, "9").out == "this is job 9\n"
    for words in ([], ["13"]):
        done = clusterjobs("logs", spec, *words)
        assert (done.code, done.out) == (1, "")
        assert "job 13 is pending: no nodes are free yet (Resources); it has no log yet" in done.err
        assert f"clusterjobs logs {spec} 13 --follow" in done.err


def test_logs_follow_a_pending_job_until_it_has_started_and_ended(clusterjobs, spec, queue) -> None:
    folder = queue(row(13, "PENDING"))
    log = spec.parent / "logs" / "13" / "job.log"
    start = f"/bin/mkdir -p {log.parent}; echo started > {log}; : > {folder}/asked"
    (folder / "squeue").rename(folder / "all-jobs")
    program(folder / "squeue", f"[[ -e {folder}/asked ]] || {folder}/all-jobs $*\n{start}")
    done = clusterjobs("logs", spec, "--follow")
    assert (done.code, done.out) == (0, "started\n")


def test_in_a_labs_shell_the_jobs_are_those_below_the_labs_folder(
    clusterjobs, tmp_path, queue, monkeypatch
) -> None:
    queue()
    lab = tmp_path / "clusterjobs" / "labs" / "mine"
    write_job(lab / "shared" / "fsx" / "logs" / "5")
    facts = {"cluster": "small", "slurm": "22.05", "nodes": [], "shared": ["/fsx"]}
    (lab / "lab.json").write_text(json.dumps(facts))
    spec = tmp_path / "exp.yaml"
    spec.write_text(SPEC.format(logs="/fsx/logs"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    outside = clusterjobs("logs", spec)
    assert outside.code == 1
    assert 'to see those of a lab: eval "$(clusterjobs lab env)"' in outside.err
    monkeypatch.setenv("CLUSTERJOBS_LAB", "mine")
    assert clusterjobs("logs", spec).out == "this is job 5\n"
    (job,) = json.loads(clusterjobs("status", spec, "--json").out)["jobs"]
    assert job["log"] == str(lab / "shared" / "fsx" / "logs" / "5" / "job.log")
    monkeypatch.setenv("CLUSTERJOBS_LAB", "never-started")
    assert clusterjobs("logs", spec).code == 1
