"""status of jobs on a real Slurm: why they wait, and which rank failed first."""

from __future__ import annotations

import json

import pytest

from clusterjobs.cli import main
from clusterjobs.slurm.queue import known_jobs, queued_jobs

pytestmark = pytest.mark.lab

HOSTILE = "a|b,c\n13|RUNNING"
ONE_FAILS = """
import os, time
print("step 3/9", flush=True)
if os.environ["SLURM_PROCID"] == "2":
    raise ValueError("loss is nan")
time.sleep(600)
"""


@pytest.fixture
def slurm_here(jobs, monkeypatch) -> None:
    """The lab's Slurm is that of this process."""
    for name, value in jobs.lab.environment().items():
        monkeypatch.setenv(name, value)


def submitted(jobs, *options: str) -> str:
    command = ["sbatch", "--parsable", "--hold", "--wrap=true", *options]
    done = jobs.lab.run(command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_tasks_that_wait_are_all_known_whatever_their_names_are(jobs, slurm_here) -> None:
    array = submitted(jobs, "--array=0-2", f"--job-name={HOSTILE}", f"--comment={HOSTILE}")
    other = submitted(jobs, f"--dependency=afterok:{array}")
    queued = queued_jobs() or {}
    tasks = [queued[f"{array}_{index}"] for index in range(3)]
    assert {(one.name, one.comment, one.reason) for one in tasks} == {
        (HOSTILE, HOSTILE, "JobHeldUser")
    }
    assert array in queued[other].dependency
    assert jobs.lab.run(["scancel", array, other]).returncode == 0
    ended = {one.shown_id: one.state for one in known_jobs() or () if one.has_ended}
    assert ended[other] == "CANCELLED"


def test_the_traceback_is_that_of_the_rank_that_failed(jobs, slurm_here, capsys) -> None:
    spec = jobs.spec("fails", framework="command", command=["python3", "-c", ONE_FAILS])
    ended = jobs.run(spec)
    assert ended.exit_code
    logs = jobs.lab.folder.shared("/fsx") / "logs"
    capsys.readouterr()
    assert main.run(["status", str(logs), ended.job_id]) == 0
    shown = capsys.readouterr().out
    assert f"job {ended.job_id}, the first traceback of rank 2:" in shown
    assert shown.rstrip().endswith("ValueError: loss is nan")
    assert main.run(["status", str(logs), ended.job_id, "--json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (job["status"], job["step"], job["steps"]) == ("failed", 3, 9)
    assert job["traceback"]["rank"] == "2"
