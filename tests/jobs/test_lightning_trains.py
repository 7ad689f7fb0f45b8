"""Lightning trains one model in four ranks, and a job that is interrupted has the same losses."""

from __future__ import annotations

import pathlib
import re

import pytest
from faults import TIMEOUT, Running
from own_numbers import Kind
from reported import check_report, recorded

from clusterjobs.lab.lab import until

pytest.importorskip("lightning", reason="Lightning is not installed")
pytestmark = [pytest.mark.lab, pytest.mark.slow]

SCRIPT = pathlib.Path(__file__).with_name("train_lightning.py")
STEPS, SAVE_EVERY = 80, 15
_STEP = re.compile(r"step (\d+) loss ([\d.]+)")


def start(jobs, name: str) -> Running:
    folder = f"/fsx/faults/{name}"
    spec = jobs.spec(
        *(name,),
        framework="lightning",
        script=str(SCRIPT),
        args={"steps": STEPS, "save-every": SAVE_EVERY, "csv": folder},
        time_limit="00:30:00",
        checkpoints={"path": f"{folder}/checkpoints"},
        restarts={"time_limit": 2, "failure": 2, "grace_seconds": 60},
    )
    job_id = jobs.submit(jobs.render(recorded(spec)))
    return Running(jobs.lab, job_id, jobs.lab.folder.shared("/fsx") / "faults" / name)


def losses(job: Running) -> list[tuple[int, str]]:
    return [(int(step), loss) for step, loss in _STEP.findall(job.log())]


def reach(job: Running, count: int) -> None:
    until(lambda: len(losses(job)) >= count, TIMEOUT, job.log)


def kill_rank_3(job: Running) -> None:
    """The one of the latest attempt."""
    node, pid = re.findall(r"rank 3 of 4: 1 on (\S+), pid (\d+)", job.log())[-1]
    assert job.lab.node_run(node, ["kill", "-KILL", pid]).returncode == 0


def test_an_interrupted_training_has_the_same_losses(jobs) -> None:
    straight = start(jobs, "straight")
    assert straight.wait() == 0, straight.log()
    expected = dict(losses(straight))
    assert sorted(expected) == list(range(1, STEPS + 1))
    first, second = jobs.lab.facts.nodes
    for rank, node in enumerate((first, first, second, second)):
        assert f"rank {rank} of 4: {rank % 2} on {node}" in straight.log(), straight.log()
    assert straight.log().count("SLURMEnvironment: auto_requeue False") == 4, straight.log()

    job = start(jobs, "interrupted")
    reach(job, 20)
    job.scancel("--batch", "--signal=USR1")
    until(lambda: len(job.records()) == 1, TIMEOUT, job.log)
    done = len(losses(job))
    assert (job.folder / "checkpoints" / f"stopped-step={done}.ckpt").exists()
    reach(job, done + SAVE_EVERY + 2)
    kill_rank_3(job)
    assert job.wait() == 0, job.log()
    assert [one["reason"] for one in job.records()] == ["time_limit", "failure", "completed"]
    seen = losses(job)
    assert {step for step, _ in seen} == set(expected)
    assert [(step, loss) for step, loss in seen if loss != expected[step]] == []
    steps = [step for step, _ in seen]
    assert steps[:done] + steps[done : done + 1] == list(range(1, done + 2)), "a step was repeated"
    assert "Setting signal handlers" not in job.log(), "Lightning would requeue the job, too"
    assert job.records()[0]["checkpoint"] == f"step={done}"
    check_report(
        jobs, "straight", straight.job_id, Kind("own script", clock=""), "lightning", "torch"
    )
    check_report(
        jobs, "interrupted", job.job_id, Kind("own script", clock=""), "lightning", "torch"
    )
