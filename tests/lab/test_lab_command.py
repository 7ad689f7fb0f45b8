"""The command `clusterjobs lab`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_fixtures import output_of

from clusterjobs.lab.lab import until
from clusterjobs.lab.slurm import Slurm, cache_dir

CODE = "import sys; from clusterjobs.cli.main import run; sys.exit(run(sys.argv[1:]))"
LAB = [sys.executable, "-c", CODE, "lab"]


@pytest.fixture(scope="module")
def env(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An environment with a running lab for this module."""
    state = tmp_path_factory.mktemp("state")
    cache = str(cache_dir().parent)
    variables = {**os.environ, "XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": cache}
    output_of([*LAB, "up", "p4d-a100", "--queue", "train"], env=variables)
    yield variables
    output_of([*LAB, "down", "--delete"], env=variables)
    assert not (state / "clusterjobs/labs/lab").exists()


@pytest.mark.lab
def test_status_is_json_for_a_script(env: dict[str, str]) -> None:
    status = json.loads(output_of([*LAB, "status", "--json"], env=env))
    assert status["up"] is True
    assert status["nodes"] == {"train-dy-p4d-1": "idle", "train-dy-p4d-2": "idle"}
    other = json.loads(output_of([*LAB, "status", "--json", "--name", "other"], env=env))
    assert other["up"] is False


@pytest.mark.lab
def test_run_shows_the_log_and_ends_with_the_jobs_exit_code(
    env: dict[str, str], tmp_path: Path
) -> None:
    job = tmp_path / "job.sh"
    job.write_text("#!/bin/bash\n#SBATCH --output=/fsx/%x-%j.log\necho first\nsleep 1\nexit 7\n")
    command = [*LAB, "run", str(job), "--nodes=2", "--job-name", "mine"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "first\n")
    assert "RUNNING on train-dy-p4d-[1-2]" in done.stderr
    assert "\x1b" not in done.stderr


def enable_ctrl_c() -> None:
    """SIGINT is ignored if pytest runs in the background or in several processes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.lab
def test_ctrl_c_leaves_the_job_running(env: dict[str, str], tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text("#!/bin/bash\n#SBATCH --output=/fsx/c.log\necho begun\nsleep 600\n")
    running = subprocess.Popen(
        [*LAB, "run", str(job)],
        env=env,
        stdout=-1,
        stderr=-1,
        text=True,
        start_new_session=True,
        preexec_fn=enable_ctrl_c,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "begun\n"
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "keeps running" in said
    jobs = json.loads(output_of([*LAB, "status", "--json"], env=env))["jobs"]
    assert list(jobs.values()) == ["RUNNING"]
    shell = f'eval "$({" ".join(LAB[:1])} -c "$0" lab env)"; scancel --state=running; squeue -h'
    output_of(["bash", "-c", shell, CODE], env=env)
    status = [*LAB, "status", "--json"]
    until(lambda: not json.loads(output_of(status, env=env))["jobs"], 120, lambda: "not ended")


@pytest.mark.lab
def test_ctrl_c_while_the_lab_comes_up_leaves_nothing(env: dict[str, str], tmp_path: Path) -> None:
    variables = {**env, "XDG_STATE_HOME": str(tmp_path)}
    starting = subprocess.Popen(
        [*LAB, "up", "p5-h100", "--nodes=8"],
        env=variables,
        stderr=-1,
        text=True,
        start_new_session=True,
        preexec_fn=enable_ctrl_c,
    )
    assert starting.stderr is not None
    assert any("controller is started" in line for line in starting.stderr)  # reads up to there
    os.killpg(starting.pid, signal.SIGINT)
    starting.communicate(timeout=120)
    assert starting.returncode == 130
    assert not (tmp_path / "clusterjobs/labs/lab/init").exists()
    left = [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _words(p)]
    assert left == []


def _words(cmdline: Path) -> str:
    try:
        return cmdline.read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.lab
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "p4d-a100"], "a lab is already running"),
        (["up", "p4d-a10"], "there is no cluster config"),
        (["up", "p4d-a100", "--queue", "trian"], "did you mean train?"),
        (["kill-node", "train-dy-p4d-3"], "its nodes: train-dy-p4d-1, train-dy-p4d-2"),
        (["start-node", "train-dy-p4d-1"], "is not broken"),
        (["run", "--name", "other", __file__], 'the lab "other" is not running'),
    ],
)
def test_errors_have_exit_code_1_and_a_hint(
    env: dict[str, str], arguments: list[str], said: str
) -> None:
    done = subprocess.run([*LAB, *arguments], env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert said in done.stderr


@pytest.mark.lab
def test_an_error_of_sbatch_is_shown_unchanged(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --nodes=99\n")
    command = [*LAB, "run", str(tmp_path / "job.sh")]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Node count specification invalid" in done.stderr


def test_help_needs_no_lab_code() -> None:
    code = "import sys, clusterjobs.lab.command; print('clusterjobs.lab.lab' in sys.modules)"
    assert output_of([sys.executable, "-c", code]) == "False\n"
