"""A training that is interrupted again and again has the losses of one that is not."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from faults import TIMEOUT, Running

from clusterjobs.lab.lab import until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

TINY_GPT = pathlib.Path(__file__).parents[2] / "examples" / "tiny_gpt"
STEPS, SAVE_EVERY = 200, 10
_STEP = re.compile(r"step (\d+)/\d+ loss ([\d.]+)")


def start(jobs, name: str) -> Running:
    folder = f"/fsx/faults/{name}"
    args: dict[str, Any] = {
        "steps": STEPS,
        "save-every": SAVE_EVERY,
        "log-every": 1,
        "checkpoint-dir": f"{folder}/checkpoints",
    }
    spec = jobs.spec(
        *(name,),
        framework="deepspeed",
        batch={"micro": 8, "global": 32},
        zero={"stage": 1},
        workdir=str(TINY_GPT),
        script="train.py",
        args=args,
        time_limit="00:30:00",
        checkpoints={"path": f"{folder}/checkpoints", "marker": "latest"},
        restarts={"time_limit": 5, "failure": 5, "grace_seconds": 60},
    )
    job_id = jobs.submit(jobs.render(spec))
    return Running(jobs.lab, job_id, jobs.lab.folder.shared("/fsx") / "faults" / name)


def losses(job: Running) -> list[tuple[int, str]]:
    """Each step that was printed, in order, with its loss."""
    return [(int(step), loss) for step, loss in _STEP.findall(job.log())]


def tell(job: Running) -> None:
    job.scancel("--batch", "--signal=USR1")


def kill(job: Running) -> None:
    node = job.nodes()[1]
    done = job.lab.node_run(node, ["bash", "-c", _KILL_ONE])
    assert done.returncode == 0, done.stderr


# The ranks are the processes of the node whose first words are python3 train.py.
_KILL_ONE = """
for process in /proc/[0-9]*; do
  words=$(tr '\\0' ' ' < "$process/cmdline")
  [[ $words == 'python3 train.py'* ]] || continue
  kill -KILL "${process#/proc/}" && exit 0
done 2>/dev/null
exit 1
"""


def kill_and_truncate(job: Running) -> None:
    kill(job)
    checkpoints = job.folder / "checkpoints"
    newest = checkpoints / (checkpoints / "latest").read_text()
    for name, size in json.loads((newest / "complete.json").read_text()).items():
        with (newest / name).open("r+b") as file:
            file.truncate(size // 2)


INTERRUPTIONS = (
    ("time limit", tell),
    ("rank killed", kill),
    ("time limit", tell),
    ("rank killed and newest checkpoint truncated", kill_and_truncate),
    ("time limit", tell),
)


def done_again(job: Running) -> list[int]:
    """For each attempt but the first, how many steps it did that had been done before."""
    done, again = 0, []
    for step, resumed in re.findall(r"step (\d+)/\d+ loss|resuming after step (\d+)", job.log()):
        if resumed:
            again.append(done - int(resumed))
        done = int(step or resumed)
    return again


def test_five_interruptions_leave_no_trace_in_the_losses(jobs, fault_table: list[str]) -> None:
    straight = start(jobs, "straight")
    assert straight.wait() == 0
    expected = dict(losses(straight))
    assert sorted(expected) == list(range(1, STEPS + 1))

    job = start(jobs, "interrupted")
    for attempt, (_, interrupt) in enumerate(INTERRUPTIONS, 1):
        said = len(losses(job))
        until(lambda: len(losses(job)) > said + SAVE_EVERY + 5, TIMEOUT, job.log)  # noqa: B023
        interrupt(job)
        until(lambda: len(job.records()) == attempt, TIMEOUT, job.log)  # noqa: B023
    assert job.wait() == 0
    records = job.records()
    assert len(records) == 6
    seen = losses(job)
    assert {step for step, _ in seen} == set(expected)
    wrong = [(step, loss, expected[step]) for step, loss in seen if loss != expected[step]]
    assert not wrong, wrong[:5]
    again = done_again(job)
    assert [steps for steps in again if not 0 <= steps <= 2 * SAVE_EVERY] == []
    for (fault, _), record, steps in zip(INTERRUPTIONS, records[:-1], again, strict=True):
        fault_table.append(f"tiny GPT, {fault}: {record['reason']}; steps repeated: {steps}")
