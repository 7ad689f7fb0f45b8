"""torchrun starts the ranks of two nodes again inside an attempt, and the training goes on."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from faults import Running
from own_numbers import Kind
from reported import check_report, recorded

pytest.importorskip("torch", reason="needs the extra 'train'")
pytestmark = [pytest.mark.lab, pytest.mark.slow]

TRAINING = pathlib.Path(__file__).with_name("train_on_gloo.py")
STEPS, SAVE_EVERY, CRASH_AT, HOLD_AT = 30, 4, 11, 23


def start(jobs, name: str, launcher: str = "torchrun", **args: int) -> Running:
    folder = f"/fsx/faults/{name}"
    options = {"max_restarts": 2, "tee": 3, "log_dir": "{{ job.dir }}/ranks", "role": "trainer"}
    spec = jobs.spec(
        name,
        framework=launcher,
        script=str(TRAINING),
        args={"save-every": SAVE_EVERY, "steps": STEPS, **args},
        time_limit="00:30:00",
        checkpoints={"path": f"{folder}/checkpoints"},
        restarts={"time_limit": 2, "failure": 0, "grace_seconds": 60},
        **{launcher: options},
    )
    spec["args"] = [folder, *(f"--{key}={value}" for key, value in spec["args"].items())]
    return Running(
        *(jobs.lab, jobs.submit(jobs.render(recorded(spec)))),
        jobs.lab.folder.shared("/fsx") / "faults" / name,
    )


def trace(job: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.folder / "trace").read_text().splitlines()]


def ranks(job: Running, attempt: int, step: int) -> dict[int, dict[str, Any]]:
    """What the ranks that began at this step wrote down."""
    files = job.folder.glob(f"rank-{attempt}-{step}-*.json")
    return {int(file.stem.rpartition("-")[2]): json.loads(file.read_text()) for file in files}


def test_a_crashed_rank_and_a_time_limit_leave_no_trace_in_the_losses(jobs) -> None:
    job = start(jobs, "disturbed", **{"crash-at": CRASH_AT, "hold-at": HOLD_AT})
    job.reach("holding")
    job.scancel("--batch", "--signal=USR1")  # what Slurm does before the time limit
    assert job.wait() == 0, job.log()
    straight = start(jobs, "straight")
    assert straight.wait() == 0, straight.log()

    expected = {one["step"]: one["loss"] for one in trace(straight)}
    assert sorted(expected) == list(range(1, STEPS + 1))
    seen = trace(job)
    assert {one["ranks"] for one in (*seen, *trace(straight))} == {4}
    assert [
        (one["step"], one["loss"]) for one in seen if one["loss"] != expected[one["step"]]
    ] == []
    assert {one["step"] for one in seen} == set(expected)
    # One restart inside the first attempt, from its newest checkpoint; then a second attempt.
    restarted = CRASH_AT // SAVE_EVERY * SAVE_EVERY + 1
    assert list(dict.fromkeys(one["first"] for one in seen)) == [1, restarted, HOLD_AT + 1]
    assert [one["reason"] for one in job.records()] == ["time_limit", "completed"]
    for attempt, step in ((0, 1), (0, restarted), (1, HOLD_AT + 1)):
        known = ranks(job, attempt, step)
        assert sorted(known) == [0, 1, 2, 3]
        assert {one["world"] for one in known.values()} == {4}
        assert {one["TORCHELASTIC_RUN_ID"] for one in known.values()} == {job.job_id}
        # The order of the nodes' names, which is that of Slurm for the nodes of a lab.
        first, second = jobs.lab.facts.nodes
        assert [known[rank]["host"] for rank in range(4)] == [first, first, second, second]
        assert {one["MASTER_ADDR"] for one in known.values()} == {first}
    assert "1: [rank3]: rank 3 begins at step 1\n" in job.log()
    logs = jobs.lab.folder.shared("/fsx") / "logs" / job.job_id / "ranks"
    folders = {one.parents[2] for one in logs.glob(f"{job.job_id}_*/attempt_*/1/stdout.log")}
    assert len(folders) == 4  # one for each node and attempt of the job
    check_report(jobs, "straight", straight.job_id, Kind("own script"), "torch")
    check_report(jobs, "disturbed", job.job_id, Kind("own script"), "torch")


@pytest.mark.faults
def test_accelerate_launch_starts_crashed_ranks_again(jobs) -> None:
    """The ranks of both nodes, in the same attempt, from the newest checkpoint."""
    pytest.importorskip("accelerate", reason="needs the extra 'train'")
    job = start(jobs, "by-accelerate", "accelerate", **{"crash-at": CRASH_AT})
    assert job.wait() == 0, job.log()
    seen = trace(job)
    restarted = CRASH_AT // SAVE_EVERY * SAVE_EVERY + 1
    assert list(dict.fromkeys(one["first"] for one in seen)) == [1, restarted]
    assert {one["ranks"] for one in seen} == {4}
    assert {one["step"] for one in seen} == set(range(1, STEPS + 1))
    assert [one["reason"] for one in job.records()] == ["completed"]
    assert "1: [rank3]: rank 3 begins at step 1\n" in job.log()
