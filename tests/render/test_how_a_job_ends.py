"""How a job ends: the whole script in bash, beside stand-ins for Slurm's commands.

squeue says what STATE and WHY say, and srun runs a rank. A requeue is written down.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest
from test_job_script import script

STAND_INS = {
    "squeue": 'case $* in *%T*) echo "$STATE" ;; *%r*) echo "$WHY" ;; esac',
    "scontrol": 'if [[ $1 == show ]]; then echo node-1; else echo "$*" >> "$ASKED"; fi',
    "srun": 'while [[ $1 == --* ]]; do shift; done; SLURM_PROCID=0 SLURM_NTASKS=1 exec "$@"',
}
RESTARTS = {"failure": 2, "time_limit": 2}
# Slurm ends the ranks before the script hears of it, well or badly.
ENDS = {"well": "exit 0", "badly": "exit 15"}


@dataclass(frozen=True)
class End:
    """What became of a script."""

    code: int
    reasons: list[str]
    recorded: list[int]
    requeues: int
    log: str


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Any:
    def run_script(text: str, state: str = "RUNNING", why: str = "None") -> End:
        programs = tmp_path / "bin"
        programs.mkdir()
        for name, body in STAND_INS.items():
            (programs / name).write_text(f"#!/bin/bash\nexport SLURM_LOCALID=0\n{body}\n")
            (programs / name).chmod(0o755)
        (tmp_path / "job.sh").write_text(text)
        done = subprocess.run(
            ["bash", tmp_path / "job.sh"],
            env={
                "PATH": f"{programs}:{os.environ['PATH']}",
                "STATE": state,
                "WHY": why,
                "ASKED": str(tmp_path / "asked"),
                "SLURM_JOB_ID": "4711",
                "SLURM_JOB_NODELIST": "node-1",
                "SLURM_SUBMIT_DIR": str(tmp_path),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lines = (tmp_path / "logs/4711/attempts.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        asked = tmp_path / "asked"
        return End(
            done.returncode,
            [one["reason"] for one in records],
            [one["exit_code"] for one in records],
            asked.read_text().count("requeue") if asked.exists() else 0,
            done.stdout + done.stderr,
        )

    return run_script


def text_of(ranks: str = "true", **keys: Any) -> str:
    return script(nodes=1, command=["bash", "-c", ranks], **keys)


def with_restarts(tmp_path: pathlib.Path, **keys: Any) -> str:
    checkpoints = {"path": str(tmp_path / "checkpoints")}
    return text_of(checkpoints=checkpoints, restarts=RESTARTS, time_limit="1-00:00:00", **keys)


@pytest.mark.parametrize(
    ("why", "reason", "code"), [("TimeLimit", "time_limit", 124), ("None", "cancelled", 143)]
)
@pytest.mark.parametrize("ranks", ENDS)
def test_the_exit_code_is_that_of_the_reason_if_slurm_ends_the_ranks_first(
    run, ranks: str, why: str, reason: str, code: int
) -> None:
    end = run(text_of(ENDS[ranks]), "COMPLETING", why)
    assert (end.code, end.reasons, end.recorded) == (code, [reason], [code]), end.log


@pytest.mark.parametrize(
    ("why", "reason", "code"), [("TimeLimit", "time_limit", 124), ("None", "cancelled", 143)]
)
def test_the_exit_code_is_that_of_the_reason_before_the_training_too(
    run, why: str, reason: str, code: int
) -> None:
    tell = ["bash", "-c", 'kill -TERM "$PPID"']
    end = run(text_of(before=[tell]), "COMPLETING", why)
    assert (end.code, end.reasons, end.recorded) == (code, [reason], [code]), end.log


def test_a_step_that_slurm_ended_is_no_failure(run, tmp_path: pathlib.Path) -> None:
    end = run(with_restarts(tmp_path, before=[["bash", "-c", "exit 9"]]), "COMPLETING", "TimeLimit")
    assert (end.code, end.reasons, end.recorded) == (124, ["time_limit"], [124]), end.log


def test_what_fails_while_the_ranks_are_started_ends_the_job(run) -> None:
    text = text_of().replace("start_ranks() {\n", "start_ranks() {\n  (exit 5)\n")
    end = run(text)
    assert (end.code, end.reasons) == (5, ["failure"]), end.log


def test_a_training_that_ended_well_is_not_begun_again_if_a_command_after_it_fails(
    run, tmp_path: pathlib.Path
) -> None:
    end = run(with_restarts(tmp_path, after=[["bash", "-c", "exit 9"]]))
    assert (end.code, end.reasons, end.recorded) == (9, ["after_failure"], [9]), end.log
    assert end.requeues == 0


@pytest.mark.parametrize(("why", "code"), [("TimeLimit", 124), ("None", 143)])
def test_a_training_that_ended_well_is_not_begun_again_if_slurm_ends_what_follows(
    run, tmp_path: pathlib.Path, why: str, code: int
) -> None:
    tell = 'kill -TERM "$PPID"'
    text = with_restarts(tmp_path, after=[["bash", "-c", tell]])
    end = run(text, why=why)
    assert (end.code, end.requeues) == (code, 0), end.log


def test_a_training_that_fails_is_begun_again(run, tmp_path: pathlib.Path) -> None:
    end = run(with_restarts(tmp_path, ranks="exit 9", after=["true"]))
    assert (end.code, end.reasons, end.requeues) == (9, ["failure"], 1), end.log


def test_what_follows_may_end_well(run, tmp_path: pathlib.Path) -> None:
    end = run(with_restarts(tmp_path, after=["true"]))
    assert (end.code, end.reasons, end.requeues) == (0, ["completed"], 0), end.log


def test_a_full_disk_does_not_fail_a_job_that_has_ended_well(tmp_path: pathlib.Path) -> None:
    """bash before 5.1 writes each here-document into a file: here none may have a byte."""
    text = script(nodes=1, preflight=True)
    ends = text[text.index("\nexit 0") if "\nexit 0" in text else text.index("\n# ---- programs") :]
    assert len(ends) > 10_000, "the programs are not there"
    (tmp_path / "ends.sh").write_text(f"set -euo pipefail\n{ends}")
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec bash "$1"', "limited", tmp_path / "ends.sh"],
        env={**os.environ, "BASH_COMPAT": "5.0"},
        check=False,
    )
    assert done.returncode == 0
