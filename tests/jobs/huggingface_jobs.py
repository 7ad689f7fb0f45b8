"""Trainings with Hugging Face's libraries in the lab: interrupted at a time limit, and resumed."""

from __future__ import annotations

import pathlib
import re
from typing import Any

from faults import TIMEOUT, Running
from rendered_jobs import Jobs
from reported import recorded

from clusterjobs.lab.lab import until

STEPS, HOLD_AT = 12, 7
_LOSS = re.compile(r"step (\d+) loss (\S+)")
_RANK = re.compile(r"rank (\d) of 4 on (\S+): Trainer has 4 ranks, ([A-Z_]+)")


def start(jobs: Jobs, name: str, **keys: Any) -> Running:
    """A training of 12 steps that saves every 5, on two nodes x two ranks."""
    folder = f"/fsx/faults/{name}"
    spec = jobs.spec(
        name,
        batch={"micro": 2, "global": 16},
        time_limit="00:30:00",
        env={"HF_HUB_OFFLINE": "1"},
        checkpoints={"path": f"{folder}/checkpoints"},
        restarts={"time_limit": 2, "grace_seconds": 120},
        **keys,
    )
    job_id = jobs.submit(jobs.render(recorded(spec)))
    return Running(jobs.lab, job_id, jobs.lab.folder.shared("/fsx") / "faults" / name)


def trainer_keys(**args: Any) -> dict[str, Any]:
    """The keys of a spec whose script is the Trainer's."""
    own = {"max_steps": STEPS, "save_steps": 5, "logging_steps": 1, "disable_tqdm": "True"}
    script = str(pathlib.Path(__file__).with_name("train_huggingface.py"))
    return {"framework": "huggingface", "script": script, "args": {**own, **args}}


def own_keys(hold_at: int = 0) -> dict[str, Any]:
    """The keys of a spec whose script has a loop of its own."""
    script = str(pathlib.Path(__file__).with_name("train_accelerate.py"))
    args = ["{{ checkpoints.path }}", str(STEPS), str(hold_at)]
    return {"framework": "accelerate", "script": script, "args": args}


def losses(job: Running) -> list[tuple[int, str]]:
    return [(int(step), loss) for step, loss in _LOSS.findall(job.log())]


def assert_resumed(straight: Running, job: Running) -> None:
    """`job` was interrupted once, at step HOLD_AT, and has the losses of `straight`."""
    until(lambda: "held" in job.log(), TIMEOUT, job.log)
    job.scancel("--batch", "--signal=USR1")
    assert job.wait() == 0, job.log()
    assert [one["reason"] for one in job.records()] == ["time_limit", "completed"]
    assert losses(job) == losses(straight), job.log()
    assert [step for step, _ in losses(job)] == list(range(1, STEPS + 1))


def assert_one_training(job: Running, jobs: Jobs, kind: str) -> None:
    """Each attempt was one training of four ranks, two on each node."""
    first, second = jobs.lab.facts.nodes
    expected = {(str(rank), first if rank < 2 else second, kind) for rank in range(4)}
    assert set(_RANK.findall(job.log())) == expected, job.log()
