"""submit, run, status, logs and cancel in the shell of a lab: /fsx is the lab's folder there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_fixtures import output_of

from clusterjobs.lab.lab import until
from clusterjobs.lab.slurm import Slurm, cache_dir

CODE = "import sys; from clusterjobs.cli.main import run; sys.exit(run(sys.argv[1:]))"
PROGRAM = [sys.executable, "-c", CODE]
SPEC = """\
name: {name}
cluster: small
framework: command
command: [bash, -c, {command}]
logs: /fsx/logs
time_limit: "5"
"""


@pytest.fixture(scope="module")
def shell(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What `eval "$(clusterjobs lab env)"` gives, in a shell with a running lab."""
    state = tmp_path_factory.mktemp("state")
    variables = {
        **os.environ,
        "XDG_STATE_HOME": str(state),
        "XDG_CACHE_HOME": str(cache_dir().parent),
        "XDG_CONFIG_HOME": str(state),
    }
    output_of([*PROGRAM, "lab", "up", "small"], env=variables)
    binaries = state / "clusterjobs/labs/lab/bin"
    path = f"{binaries}:{variables['PATH']}"
    yield {**variables, "CLUSTERJOBS_LAB": "lab", "PATH": path}
    output_of([*PROGRAM, "lab", "down", "--delete"], env=variables)


def call(shell: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words], env=shell, cwd=folder, capture_output=True, text=True, check=False
    )


def write_spec(folder: Path, name: str, command: str, more: str = "") -> str:
    (folder / f"{name}.yaml").write_text(SPEC.format(name=name, command=json.dumps(command)) + more)
    return f"{name}.yaml"


@pytest.mark.lab
def test_run_prints_the_log_and_exits_with_the_jobs_code(
    shell: dict[str, str], tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, "good", "echo from rank $RANK")
    done = call(shell, tmp_path, "run", spec)
    assert done.returncode == 0, done.stderr
    assert "0: from rank 0\n" in done.stdout
    assert done.stderr.splitlines()[-1].endswith(" completed")
    rank = call(shell, tmp_path, "logs", spec, "--rank", "0", "--tail", "1")
    assert (rank.returncode, rank.stdout) == (0, "from rank 0\n"), rank.stderr
    assert "completed" in call(shell, tmp_path, "status", spec).stdout
    failing = write_spec(tmp_path, "failing", "echo before; exit 7")
    failed = call(shell, tmp_path, "run", failing)
    assert failed.returncode == 7, failed.stderr
    assert "0: before\n" in failed.stdout
    assert "ended: failure, exit code 7" in failed.stderr


@pytest.mark.lab
def test_a_sweep_is_run_and_its_points_have_logs(shell: dict[str, str], tmp_path: Path) -> None:
    sweep = "sweep: {grid: {env.LR: [1, 2, 3]}}\n"
    writes = """printf '{"loss": %s}' $LR > $CLUSTERJOBS_RESULT"""
    spec = write_spec(tmp_path, "sweep", f"echo lr $LR; {writes}; (( LR < 3 ))", sweep)
    done = call(shell, tmp_path, "run", spec)
    assert done.returncode == 1, done.stderr
    assert "2 completed, 1 failed" in done.stderr
    log = call(shell, tmp_path, "logs", spec, "LR=2", "--rank", "0")
    assert log.stdout == "lr 2\n", log.stderr
    refused = call(shell, tmp_path, "logs", spec)
    assert refused.returncode == 1
    assert "is a sweep of 3 points: say which one" in refused.stderr
    results = json.loads(call(shell, tmp_path, "results", spec, "--json").stdout)
    assert '"loss": 2' in json.dumps(results)
    again = call(shell, tmp_path, "run", spec, "--points", "0-1")
    assert again.returncode == 0
    assert "nothing to submit" in again.stderr


@pytest.mark.lab
def test_the_points_of_a_sweep_are_cancelled(shell: dict[str, str], tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "long", "sleep 600", "sweep: {grid: {env.LR: [1, 2, 3]}}\n")
    submitted = call(shell, tmp_path, "submit", spec)
    assert submitted.returncode == 0, submitted.stderr
    one = call(shell, tmp_path, "cancel", spec, "1", "99999999")
    assert one.returncode == 1
    assert one.stdout.startswith("0001-LR=2-")
    assert "no job 99999999 is in the queue" in one.stderr
    rest = json.loads(call(shell, tmp_path, "cancel", spec, "--json").stdout)
    cancelled = [name for job in rest["jobs"] for name in job["points"] if job["cancelled"]]
    assert {"0000-LR=1", "0002-LR=3"} <= {name.rpartition("-")[0] for name in cancelled}

    def is_idle() -> bool:
        return "no pending or running job" in call(shell, tmp_path, "cancel", spec).stderr

    until(is_idle, 120, lambda: call(shell, tmp_path, "status", spec).stdout)


@pytest.mark.lab
def test_the_tasks_of_an_array_are_followed(shell: dict[str, str], tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "array", "exit $SLURM_ARRAY_TASK_ID", "sbatch: {array: 0-1}\n")
    done = call(shell, tmp_path, "run", spec)
    assert done.returncode == 1, done.stderr
    assert "1 completed, 1 failed" in done.stderr.splitlines()[-1]
    assert "failed: failure, exit code 1" in done.stderr
