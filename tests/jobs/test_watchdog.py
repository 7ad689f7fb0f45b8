"""The watchdog of jobs with restarts: no job holds its nodes for ranks that are gone or stalled."""

from __future__ import annotations

import time

import pytest
from faults import STEPS, Running
from rendered_jobs import Jobs

from clusterjobs.lab.breakage import kill_node, start_node

pytestmark = [pytest.mark.lab, pytest.mark.slow]

# In place of a minute without progress, and of 20 s between checks.
SOON = "--check-seconds=1 --quiet-seconds=3 --kill-seconds=2"


def start(jobs: Jobs, name: str, *command: str, **restarts: int) -> Running:
    folder = f"/fsx/faults/{name}"
    spec = jobs.spec(
        name,
        framework="command",
        command=command or ["python3", str(STEPS), folder, "--seconds", "0.3"],
        checkpoints={"path": f"{folder}/checkpoints", "marker": "latest"},
        restarts={"failure": 0, **restarts},
    )
    script = jobs.render(spec)
    text = script.read_text()
    assert '/watchdog.py" --ranks' in text
    script.write_text(text.replace('/watchdog.py" ', f'/watchdog.py" {SOON} '))
    return Running(jobs.lab, jobs.submit(script), jobs.lab.folder.shared("/fsx") / "faults" / name)


def reasons(job: Running) -> list[str]:
    return [one["reason"] for one in job.records()]


def on_node(job: Running, node: str, *command: str) -> str:
    return job.lab.node_run(node, list(command)).stdout


def step_daemon(job: Running, node: str) -> str:
    """The process id of the slurmstepd of the ranks; "" if there is none."""
    return on_node(job, node, "pgrep", "-f", rf"^slurmstepd: \[{job.job_id}\.0\]").strip()


def test_a_launcher_whose_step_daemon_was_killed_is_ended(jobs: Jobs) -> None:
    job = start(jobs, "stepd-killed")
    job.reach_step(15)
    node = job.nodes()[1]
    assert job.lab.node_run(node, ["kill", "-KILL", step_daemon(job, node)]).returncode == 0
    assert job.wait() == 0
    assert reasons(job) == ["node_failure", "completed"], job.log()
    assert "no rank is left on any node, but its launcher waits" in job.log()


def test_a_launcher_that_missed_the_end_of_its_ranks_is_ended(jobs: Jobs) -> None:
    job = start(jobs, "network-cut-at-the-end")
    job.reach_step(55)
    node = job.nodes()[1]
    kill_node(jobs.lab, node, "network")
    job.reach_step(60)
    time.sleep(20)  # the daemon of the step gives up telling srun, and nothing shows when
    start_node(jobs.lab, node)
    assert job.wait() == 0
    # On a slow machine Slurm itself finds the node lost; the reason is the same.
    assert reasons(job) == ["node_failure", "completed"], job.log()


def test_a_stopped_rank_holds_the_others_for_stall_seconds_only(jobs: Jobs) -> None:
    job = start(jobs, "rank-stopped", stall_seconds=8)
    job.reach_step(15)
    pid = (job.folder / "pid.0.0").read_text()
    assert job.lab.node_run(job.nodes()[0], ["kill", "-STOP", pid]).returncode == 0
    assert job.wait() == 0
    assert reasons(job) == ["stalled", "completed"], job.log()
    assert "no progress for 8 s (restarts.stall_seconds)" in job.log()


def test_a_rank_in_an_endless_loop_is_ended(jobs: Jobs) -> None:
    loop = "[[ -n ${SLURM_RESTART_COUNT:-} || $RANK != 1 ]] || while :; do :; done"
    job = start(jobs, "endless", "bash", "-c", loop, stall_seconds=8)
    assert job.wait() == 0
    assert reasons(job) == ["stalled", "completed"], job.log()


def test_stalls_have_a_budget_of_their_own(jobs: Jobs) -> None:
    job = start(jobs, "stalled-once", "sleep", "1000", stall_seconds=8, stalled=0)
    assert job.wait() not in (0, None)
    assert reasons(job) == ["stalled"], job.log()
    assert "no restart: restarts.stalled allows 0" in job.log()
