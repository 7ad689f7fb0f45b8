"""Points that share a node of a real Slurm, with a time limit, and with too many failures."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from rendered_jobs import Jobs

from clusterjobs.lab.lab import until
from clusterjobs.runs.jobs.records import read_folder

pytestmark = pytest.mark.lab

# Points 0 and 1 end in the first attempt, the others only in the second one.
END_LATER = """
mkdir -p /fsx/limit && echo "$NUMBER" >> /fsx/limit/ran
until [[ $NUMBER -lt 2 || ${SLURM_RESTART_COUNT:-0} == 1 || -e $CLUSTERJOBS_STOP_FILE ]]; do
  sleep 0.1
done
"""
# The first task fails at two points; the second one must wait.
FAIL_TWICE = "mkdir -p /fsx/fails && touch /fsx/fails/$NUMBER; [[ $NUMBER -gt 1 ]] || exit 3"


def submit(jobs: Jobs, name: str, program: str, points: int, **keys: Any) -> str:
    """The id of the array that runs `program` in each point, four points in a task."""
    sweep = {"grid": {"env.NUMBER": [str(one) for one in range(points)]}, "per_node": 4}
    spec = jobs.spec(
        name,
        framework="command",
        command=["bash", "-c", program],
        nodes=1,
        ranks_per_node=1,
        env={"NUMBER": "0"},
        sweep={**sweep, **keys.pop("sweep", {})},
        **keys,
    )
    return jobs.submit(jobs.render(spec))


def fsx(jobs: Jobs) -> pathlib.Path:
    return jobs.lab.folder.shared("/fsx")


def records(jobs: Jobs, name: str) -> dict[int, list[str]]:
    """How the attempts of each point ended, by its index."""
    found = {}
    for file in fsx(jobs).glob(f"logs/{name}/*/*/attempts.jsonl"):
        attempts = read_folder(file.parent).attempts  # a line that is still written is left out
        found[int(file.parts[-3][:4])] = [one.reason for one in attempts]
    return found


def logs(jobs: Jobs, name: str) -> str:
    files = fsx(jobs).glob(f"logs/{name}/*/*/job.log")
    return "\n".join(file.read_text(errors="replace") for file in files)


def test_at_the_time_limit_only_unfinished_points_of_a_pack_run_again(jobs: Jobs) -> None:
    keys = {
        "restarts": {"time_limit": 1, "grace_seconds": 5},
        "checkpoints": {"path": "/fsx/limit-saved"},
        "time_limit": "0:30:00",
        "logs": {"path": "/fsx/logs", "export": "/fsx/exported"},
    }
    array = submit(jobs, "limit", END_LATER, 4, **keys)
    ran = fsx(jobs) / "limit" / "ran"
    until(
        lambda: (
            {one: records(jobs, "limit").get(one) for one in (0, 1)}
            == {0: ["completed"], 1: ["completed"]}
            and sorted(ran.read_text().split()) == ["0", "1", "2", "3"]
        ),
        120,
        lambda: f"{records(jobs, 'limit')} {logs(jobs, 'limit')}",
    )
    # What Slurm does for --signal=B:USR1@...
    assert jobs.lab.run(["scancel", "--batch", "--signal=USR1", f"{array}_0"]).returncode == 0
    assert jobs.lab.wait(f"{array}_0", 120).exit_code == 0, logs(jobs, "limit")
    assert sorted(ran.read_text().split()) == ["0", "1", "2", "2", "3", "3"]
    again = ["time_limit", "completed"]
    expected = {0: ["completed"], 1: ["completed"], 2: again, 3: again}
    assert records(jobs, "limit") == expected, logs(jobs, "limit")
    check_exports(jobs)


def check_exports(jobs: Jobs) -> None:
    """Each point has a folder of its own, though all have the same job id."""
    folders = [file.parent for file in fsx(jobs).glob("logs/limit/*/*/attempts.jsonl")]
    assert len({folder.name for folder in folders}) == 1
    for folder in folders:
        exported = fsx(jobs) / "exported" / folder.relative_to(fsx(jobs) / "logs")
        records = (exported / "attempts.jsonl").read_text()
        assert records == (folder / "attempts.jsonl").read_text()


def test_the_tasks_after_too_many_failed_points_of_a_pack_are_held(jobs: Jobs) -> None:
    sweep = {"max_running": 1, "max_failed": 2}
    array = submit(jobs, "fails", FAIL_TWICE, 6, sweep=sweep)
    assert jobs.lab.wait(f"{array}_0", 120).exit_code == 3

    def held() -> bool:
        options = ["--noheader", "--array", f"--job={array}", "--format=%K %r"]
        return jobs.lab.run(["squeue", *options]).stdout.split() == ["1", "JobHeldUser"]

    until(held, 120, lambda: logs(jobs, "fails"))
    assert f"`scontrol release {array}_[1]`" in logs(jobs, "fails")
    started = fsx(jobs) / "fails"
    assert {one.name for one in started.iterdir()} == {"0", "1", "2", "3"}
    assert jobs.lab.run(["scontrol", "release", f"{array}_1"]).returncode == 0
    assert jobs.lab.wait(f"{array}_1", 120).exit_code == 0
    assert {one.name for one in started.iterdir()} == {"0", "1", "2", "3", "4", "5"}
