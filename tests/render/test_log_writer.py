"""The log's writer never decides how a job ends: a killed one is replaced, in every phase."""

from __future__ import annotations

import os
import pathlib

import pytest
from script_runs import JOB_ID, Run, lines_of, run_script, script

KILLS = {
    "tee": 'pkill -KILL -P "$WRITER"',
    "the shell that restarts it": 'kill -KILL "$WRITER"',
}
SETUP = ["export WRITER=$log_writer"]
LINES = 2000  # more than a pipe holds


def killing(kill: str) -> list[str]:
    """A step that kills the writer between its own lines."""
    say = f"seq --format='after %g' {LINES}"
    return ["bash", "-c", f"echo before; until {KILLS[kill]}; do sleep 0.05; done; {say}"]


def log_of(run: Run) -> list[str]:
    return lines_of(run.folder / "logs" / JOB_ID / "job.log")


@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize("phase", ["before", "training", "after"])
def test_a_job_whose_log_writer_is_killed_ends_as_without_it(
    tmp_path: pathlib.Path, phase: str, kill: str
) -> None:
    step = killing(kill)
    keys = {"command": step} if phase == "training" else {"command": ["true"], phase: [step]}
    run = run_script(tmp_path, script(logs=str(tmp_path / "logs"), setup=SETUP, **keys))
    assert (run.code, run.reasons) == (0, ["completed"]), run.log
    assert f"after {LINES}" in log_of(run)


@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_writer_that_is_killed_while_the_job_ends_changes_nothing(
    tmp_path: pathlib.Path, kill: str, restarts: int
) -> None:
    keys = {"logs": str(tmp_path / "logs"), "setup": SETUP, "command": ["bash", "-c", "exit 7"]}
    if restarts:
        keys |= {"checkpoints": {"path": str(tmp_path / "c")}, "restarts": {"failure": 1}}
    squeue = f'{KILLS[kill]}; echo "RUNNING:None"'
    run = run_script(tmp_path, script(**keys), stand_ins={"squeue": squeue})
    assert (run.code, run.reasons, run.requeues) == (7, ["failure"], restarts), run.log


def test_a_log_of_all_jobs_gets_the_lines_of_each(tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "new folder" / "all.log"
    text = script(logs={"copy": str(copy)}, command=["echo", "a rank's line"])
    for _ in range(2):
        assert run_script(tmp_path, text).reasons == ["completed"]
    job_log = (tmp_path / "logs" / "4711" / "job.log").read_text()
    assert copy.read_text() == job_log
    assert job_log.count("a rank's line") == 2


def test_a_log_of_all_jobs_is_for_its_owner_alone_if_there_are_secrets(
    tmp_path: pathlib.Path,
) -> None:
    copy = tmp_path / "all.log"
    copy.touch(mode=0o644)
    text = script(logs={"copy": str(copy)}, command=["true"], secrets=["A_KEY"])
    assert run_script(tmp_path, text, environment={"A_KEY": "x"}).reasons == ["completed"]
    assert copy.stat().st_mode & 0o077 == 0
    copy.unlink()
    copy.mkdir()
    run = run_script(tmp_path, text, environment={"A_KEY": "x"})
    assert run.code == 1
    assert f"{copy} is not a regular file" in run.log


def test_a_log_of_all_jobs_is_a_regular_file(tmp_path: pathlib.Path) -> None:
    """A FIFO whose reader has ended would block every line of the job."""
    os.mkfifo(tmp_path / "fifo")
    for copy in (str(tmp_path / "fifo"), "/dev/null", str(tmp_path)):
        run = run_script(tmp_path, script(logs={"copy": copy}))
        assert run.code == 1
        assert f"{copy} is not a regular file (logs.copy)" in run.log
