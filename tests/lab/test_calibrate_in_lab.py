"""calibrate in a lab: a short job runs, its log is read, and `plan` uses what was measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_fixtures import output_of

from clusterjobs.lab.slurm import Slurm, cache_dir

CODE = "import sys; from clusterjobs.cli.main import run; sys.exit(run(sys.argv[1:]))"
PROGRAM = [sys.executable, "-c", CODE]
SPEC = """\
name: tiny
cluster: small
nodes: 2
ranks_per_node: 2
time_limit: 00:10:00
framework: jax
script: train.py
model: {layers: 2, hidden: 64, heads: 2, sequence: 64, vocab: 256}
batch: {micro: 8, global: 32}
precision: fp32
args: {steps: 4000}
logs: /fsx/logs
"""
# Not a training: it prints the lines of one.
PROGRAM_OF_JOB = """\
import sys
steps = int(sys.argv[sys.argv.index("--steps") + 1])
for step in range(steps):
    print(f"step {step + 1}/{steps} loss 1.0 samples/s 320.0", flush=True)
"""


@pytest.fixture(scope="module")
def shell(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    state = tmp_path_factory.mktemp("state")
    variables = {
        **os.environ,
        "XDG_STATE_HOME": str(state),
        "XDG_CACHE_HOME": str(cache_dir().parent),
        "XDG_CONFIG_HOME": str(state),
    }
    output_of([*PROGRAM, "lab", "up", "small"], env=variables)
    path = f"{state / 'clusterjobs/labs/lab/bin'}:{variables['PATH']}"
    yield {**variables, "CLUSTERJOBS_LAB": "lab", "PATH": path}
    output_of([*PROGRAM, "lab", "down", "--delete"], env=variables)


def call(shell: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words], env=shell, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.lab
def test_a_short_job_is_measured_and_plan_says_so(shell: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "exp.yaml").write_text(SPEC)
    (tmp_path / "train.py").write_text(PROGRAM_OF_JOB)
    before = json.loads(call(shell, tmp_path, "plan", "exp.yaml", "--json").stdout)
    assert before["foresight"] is None  # nothing is predicted for CPUs
    done = call(shell, tmp_path, "calibrate", "exp.yaml", "--steps", "10", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # one node: two ranks of micro batch 8 make a step of 16 or 32 samples, at 320 samples/s
    assert found["step_seconds"] == pytest.approx(found["global_batch"] / 320)
    assert (found["gpus"], found["nodes"], found["steps"]) == (2, 1, 9)
    after = json.loads(call(shell, tmp_path, "plan", "exp.yaml", "--json").stdout)["foresight"]
    assert after["measured"].startswith("measured on 2 CPU of c6i.xlarge (small: c6i.xlarge, ")
    step = after["step_seconds"]
    assert step["high"] / step["low"] < 1.25
    text = call(shell, tmp_path, "plan", "exp.yaml").stdout
    assert "measured on 2 CPU of c6i.xlarge" in text
