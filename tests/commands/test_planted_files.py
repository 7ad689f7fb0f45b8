"""What another user can put in the place of a job's files: status and logs do not read it."""

from __future__ import annotations

import json
import os
import pathlib

import pytest


@pytest.fixture
def spec(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A spec with the jobs 7 and 12, without Slurm."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for job_id in ("7", "12"):
        folder = tmp_path / "logs" / job_id
        folder.mkdir(parents=True)
        (folder / "attempts.jsonl").write_text('{"attempt": 1, "reason": "failure"}\n')
        (folder / "job.log").write_text(f"this is job {job_id}\n")
        (folder / "plan.json").write_text('{"name": "tiny", "spec": {"file": "exp.yaml"}}')
    file = tmp_path / "exp.yaml"
    keys = f"cluster: small\nframework: command\ncommand: [x]\nlogs: {tmp_path}/logs\n"
    file.write_text(f"name: tiny\n{keys}")
    return file


def plant(kind: str, file: pathlib.Path, own: pathlib.Path) -> None:
    """What another user can put in the place of a file, where he may write."""
    own.write_text('{"attempt": 1, "reason": "completed"}\nprivate\n')
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to({"link": own, "endless device": "/dev/zero"}[kind])


@pytest.mark.parametrize("kind", ["link", "pipe", "endless device"])
def test_only_regular_files_of_a_job_are_read(
    clusterjobs, spec: pathlib.Path, tmp_path: pathlib.Path, kind: str
) -> None:
    job, own = tmp_path / "logs" / "7", tmp_path / "own"
    plant(kind, job / "job.log", own)
    outcome = clusterjobs("logs", spec, "7")
    assert (outcome.code, outcome.out) == (1, "")
    assert "it is a link, a pipe or a device, and not a file" in outcome.err
    plant(kind, job / "attempts.jsonl", own)
    assert "completed" not in clusterjobs("status", spec, "7").out
    plant(kind, job / "plan.json", own)
    assert [
        one["job_id"] for one in json.loads(clusterjobs("status", spec, "--json").out)["jobs"]
    ] == ["12"]


def test_a_link_in_place_of_a_job_folder_is_not_followed(
    clusterjobs, spec: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "logs" / "99").symlink_to(tmp_path / "logs" / "7")
    assert "99" not in clusterjobs("status", spec).out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_the_log_of_another_user_changes_no_terminal(
    clusterjobs, spec: pathlib.Path, tmp_path: pathlib.Path, monkeypatch
) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)  # as on a terminal
    log = tmp_path / "logs" / "7" / "job.log"
    text = "loss 1\t\x1b[31mred\x1b]0;title\x07\r\n\x9b2J\u202e.\n"
    log.write_text(text)
    assert clusterjobs("logs", spec, "7").out == text
    os.chown(log, 61235, 61235)
    expected = "loss 1\t?[31mred?]0;title?\r\n?2J?.\n"
    assert clusterjobs("logs", spec, "7").out == expected
