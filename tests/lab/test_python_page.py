"""docs/python.md: its script is typed as an outside user's code, and runs in a lab as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_fixtures import output_of

from clusterjobs.lab.slurm import Slurm, cache_dir

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
(SCRIPT,) = re.findall(r"(?s)```python\n(.*?)```", PAGE)
SWEEP = """\
name: tiny
cluster: small
framework: command
command: [python3, train.py, "{{ env.LR }}"]
env: {LR: 0}
time_limit: 00:05:00
logs: /fsx/logs
sweep: {grid: {env.LR: [1e-1, 1e-2, 1e-3]}}
"""
# Not a training: its loss is lowest for 1e-2.
TRAIN = """\
import json, os
loss = abs(float(os.environ["LR"]) - 1e-2)
json.dump({"loss": loss}, open(os.environ["CLUSTERJOBS_RESULT"], "w"))
"""
PROGRAM = [sys.executable, "-m", "clusterjobs"]


def test_the_script_is_short() -> None:
    assert len(SCRIPT.splitlines()) <= 32


def test_the_script_is_typed(tmp_path: Path) -> None:
    (tmp_path / "best.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text("[mypy]\n")
    check = [sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "best.py"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = SCRIPT.replace("job.wait(timeout=3600)", "job.wait(minutes=60)")
    (tmp_path / "best.py").write_text(wrong)
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Unexpected keyword argument "minutes" for "wait" of "Job"' in done.stdout


@pytest.fixture
def shell(slurm: Slurm, tmp_path: Path) -> Iterator[dict[str, str]]:
    """What `eval "$(clusterjobs lab env)"` gives."""
    state = tmp_path / "state"
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


@pytest.mark.lab
def test_the_script_trains_a_sweep_and_prints_its_best_point(
    shell: dict[str, str], tmp_path: Path
) -> None:
    for name, text in (("best.py", SCRIPT), ("sweep.yaml", SWEEP), ("train.py", TRAIN)):
        (tmp_path / name).write_text(text)
    command = [sys.executable, "best.py"]
    done = subprocess.run(
        command, env=shell, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    state, best = done.stdout.splitlines()
    assert state == "completed {'completed': 3}"
    assert re.fullmatch(r"best: \{'env.LR': 0\.01\} with loss 0\.0, job \d+", best)
    assert "3 completed" in done.stderr  # the changes of states are logged
    plan = json.loads(next(tmp_path.glob("state/**/logs/tiny/*/*/plan.json")).read_text())
    assert plan["spec"]["set"] == ['time_limit="00:10:00"']
