"""JAX trains on two nodes x two processes, on CPUs with gloo, and resumes after the time limit."""

from __future__ import annotations

import pathlib
import re

import pytest
from faults import TIMEOUT, Running

from clusterjobs.lab.lab import until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SCRIPT = pathlib.Path(__file__).with_name("train_jax.py")
STEPS, SLOW_FROM = 200, 60
_STEP = re.compile(r"step (\d+)/\d+ loss (\S+)")
# Nothing listens there: a process that called another through it would hang.
PROXIES = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}


def start(jobs, name: str, *options: str) -> Running:
    folder = f"/fsx/faults/{name}/checkpoints"
    spec = jobs.spec(
        name,
        framework="jax",
        script=str(SCRIPT),
        args=[folder, f"--steps={STEPS}", *options],
        time_limit="00:30:00",
        checkpoints={"path": folder, "marker": "latest.npz"},
        restarts={"time_limit": 3, "grace_seconds": 60, "signal": "TERM"},
    )
    job_id = jobs.submit(jobs.render(spec), **PROXIES)
    return Running(jobs.lab, job_id, jobs.lab.folder.shared("/fsx") / "faults" / name)


def losses(job: Running) -> list[tuple[int, str]]:
    return [(int(step), loss) for step, loss in _STEP.findall(job.log())]


def test_jax_resumes_with_the_same_losses(jobs) -> None:
    pytest.importorskip("jax", reason="needs the package jax")
    straight = start(jobs, "jax-straight")
    assert straight.wait() == 0, straight.log()
    expected = losses(straight)
    assert [step for step, _ in expected] == list(range(1, STEPS + 1))

    job = start(jobs, "jax-interrupted", f"--slow-from={SLOW_FROM}")
    until(lambda: len(losses(job)) > SLOW_FROM, TIMEOUT, job.log)
    job.scancel("--batch", "--signal=USR1")  # what Slurm does for --signal=B:USR1@...
    assert job.wait() == 0, job.log()
    assert [one["reason"] for one in job.records()] == ["time_limit", "completed"]
    assert losses(job) == expected, "a step is repeated or differs"
    for rank in range(4):
        said = f"rank {rank} of 4 counts 4 ranks, 4 devices, {jobs.lab.facts.nodes[0]}:"
        assert job.log().count(said) == 2, job.log()
