"""Points of a sweep side by side on one node of a real Slurm: `sweep: {per_node: 8}`."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from rendered_jobs import Jobs, shape_of

from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm
from clusterjobs.runs.jobs.records import read_folder

pytestmark = pytest.mark.lab

NODE = "train-dy-p4d-1"
# All points meet. Then one crashes, and the others end after they have seen its record.
MEET_AND_CRASH = """
mkdir -p /fsx/crash
printf '{"gpus": "%s", "port": "%s", "node": "%s"}' \\
  "$CUDA_VISIBLE_DEVICES" "$MASTER_PORT" "$SLURMD_NODENAME" > "/fsx/crash/$NUMBER.new"
mv "/fsx/crash/$NUMBER.new" "/fsx/crash/$NUMBER.json"
until (( $(ls /fsx/crash/*.json | wc -l) == 8 )); do sleep 0.1; done
[[ $NUMBER != 3 ]] || exit 7
until grep -qs failure /fsx/logs/crash/0003-*/*/attempts.jsonl; do sleep 0.1; done
"""
# Point 0 ends in the first attempt, the other one only in the second.
END_LATER = """
mkdir -p /fsx/later && echo "$NUMBER" >> /fsx/later/ran
until [[ $NUMBER == 0 || ${SLURM_RESTART_COUNT:-0} == 1 ]]; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    shape = shape_of("p4d-a100", nodes=1)
    with running_lab(shape, tmp_path_factory.mktemp("packed"), slurm) as running:
        yield running


def submit(jobs: Jobs, name: str, program: str, points: int, **keys: Any) -> str:
    """The id of the array that runs `program` in each point, all of them on one node."""
    spec = {
        "name": name,
        "cluster": "p4d-a100",
        "framework": "command",
        "command": ["bash", "-c", program],
        "env": {"NUMBER": "0"},
        "logs": "/fsx/logs",
        "sweep": {
            "grid": {"env.NUMBER": [str(one) for one in range(points)]},
            "per_node": points,
        },
        **keys,
    }
    return jobs.submit(jobs.render(spec))


def fsx(jobs: Jobs) -> pathlib.Path:
    return jobs.lab.folder.shared("/fsx")


def records(jobs: Jobs, name: str) -> dict[int, list[tuple[str, int | None]]]:
    """How the attempts of each point ended: the reasons and exit codes, by its index."""
    found = {}
    for log in fsx(jobs).glob(f"logs/{name}/*/*/attempts.jsonl"):
        attempts = read_folder(log.parent).attempts  # a line that is still written is left out
        found[int(log.parts[-3][:4])] = [(one.reason, one.exit_code) for one in attempts]
    return found


def is_idle(lab: Lab) -> bool:
    return lab.node_states()[NODE] == "idle"


def test_a_crash_leaves_seven_points_running_with_a_gpu_and_a_port_each(jobs: Jobs) -> None:
    array = submit(jobs, "crash", MEET_AND_CRASH, points=8)
    assert jobs.lab.wait(f"{array}_0", 120).exit_code == 7
    seen = [json.loads((fsx(jobs) / f"crash/{one}.json").read_text()) for one in range(8)]
    assert sorted(one["gpus"] for one in seen) == list("01234567")
    assert len({one["port"] for one in seen}) == 8
    assert {one["node"] for one in seen} == {NODE}
    completed, failed = [("completed", 0)], [("failure", 7)]
    assert records(jobs, "crash") == {one: failed if one == 3 else completed for one in range(8)}
    until(lambda: is_idle(jobs.lab), 120, lambda: str(jobs.lab.node_states()))


def test_after_a_requeue_only_points_that_have_not_ended_run_again(jobs: Jobs) -> None:
    checkpoints = {"path": "/fsx/checkpoints/{{ point.label }}"}
    keys = {"gpus_per_node": 4, "ranks_per_node": 1, "checkpoints": checkpoints}
    array = submit(jobs, "later", END_LATER, points=2, **keys)
    ran = fsx(jobs) / "later/ran"
    until(
        lambda: records(jobs, "later").get(0) == [("completed", 0)] and "1" in ran.read_text(),
        120,
        lambda: str(records(jobs, "later")),
    )
    assert jobs.lab.run(["scontrol", "requeue", f"{array}_0"]).returncode == 0
    assert jobs.lab.wait(f"{array}_0", 120).exit_code == 0
    assert sorted(ran.read_text().split()) == ["0", "1", "1"]
    assert records(jobs, "later")[0] == [("completed", 0)]
    assert records(jobs, "later")[1][-1] == ("completed", 0)


def test_scancel_ends_all_points_of_a_task(jobs: Jobs) -> None:
    waits = 'mkdir -p /fsx/ended && touch "/fsx/ended/$NUMBER"; until false; do sleep 0.1; done'
    array = submit(jobs, "ended", waits, points=8)
    started = fsx(jobs) / "ended"
    until(
        lambda: started.is_dir() and len([*started.iterdir()]) == 8, 120, lambda: "not all started"
    )
    assert jobs.lab.run(["scancel", f"{array}_0"]).returncode == 0
    jobs.lab.wait(f"{array}_0", 120)
    until(lambda: is_idle(jobs.lab), 120, lambda: str(jobs.lab.node_states()))
    assert records(jobs, "ended") == {one: [("cancelled", 143)] for one in range(8)}
