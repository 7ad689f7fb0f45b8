"""Secrets reach the ranks, and nothing that is written, listed or recorded."""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.lab

LOOKER = pathlib.Path(__file__).with_name("look_for_secret.py")
FROM_ENVIRONMENT = "env-secret-9f3ac1"
FROM_FILE = "file-secret-77b0e2"
FROM_COMMAND = "command-secret-c5d418"


def files_with(text: str, *folders: pathlib.Path) -> Iterator[pathlib.Path]:
    for folder in folders:
        for file in folder.rglob("*"):
            if file.is_file() and text.encode() in file.read_bytes():
                yield file


def test_secrets_reach_the_ranks_and_no_file_list_or_record(jobs, tmp_path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "token").write_text(f"{FROM_FILE}\n")
    (own / "vault").write_text(f"#!/bin/sh\necho {FROM_COMMAND}\n")
    (own / "vault").chmod(0o700)
    names = ["A_KEY", "B_KEY", "C_KEY"]
    spec = jobs.spec(
        "secrets",
        framework="command",
        command=["python3", str(LOOKER), "/fsx/records/secrets", *names],
        secrets={
            "A_KEY": {},
            "B_KEY": {"file": str(own / "token")},
            "C_KEY": {"command": [str(own / "vault")]},
        },
    )
    script = jobs.render(spec)
    ended = jobs.end(jobs.submit(script, A_KEY=FROM_ENVIRONMENT), "secrets")
    assert ended.exit_code == 0, ended.log
    values = dict(zip(names, (FROM_ENVIRONMENT, FROM_FILE, FROM_COMMAND), strict=True))
    wanted = {name: hashlib.sha256(value.encode()).hexdigest() for name, value in values.items()}
    assert sorted(ended.ranks) == [0, 1, 2, 3]
    for record in ended.ranks.values():
        assert record == {"digests": wanted, "shown": 0}
    shown = jobs.lab.run(["scontrol", "--details", "show", "job", ended.job_id]).stdout
    written = [script.parent, jobs.lab.folder.shared("/fsx"), jobs.lab.folder / "log"]
    for value in values.values():
        assert value not in shown
        assert list(files_with(value, *written)) == []


def test_the_search_above_finds_what_is_there(tmp_path) -> None:
    (tmp_path / "leak").write_text(FROM_FILE)
    assert list(files_with(FROM_FILE, tmp_path)) == [tmp_path / "leak"]


@pytest.mark.parametrize("source", ["environment", "file", "command"])
def test_a_secret_that_is_missing_ends_the_job_before_the_training(jobs, source: str) -> None:
    secret = {
        "environment": {},
        "file": {"file": "/nowhere/token"},
        "command": {"command": ["true"]},
    }[source]
    spec = jobs.spec(f"no-{source}", framework="command", secrets={"MISSING_KEY": secret})
    script = jobs.render(spec)
    environment = {name: value for name, value in os.environ.items() if name != "MISSING_KEY"}
    job_id = jobs.lab.sbatch(script, env=environment, cwd=script.parent)
    ended = jobs.end(job_id, f"no-{source}")
    assert ended.exit_code == 1
    assert ("/nowhere/token" if source == "file" else "the secret MISSING_KEY is") in ended.log
    assert ended.ranks == {}
