"""Jobs whose ranks are not Slurm's tasks start again too, and leave nothing behind on the nodes."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from faults import STEPS, TIMEOUT, Running
from nodes_programs import Prepared, lab, prepared, prepared_folders  # noqa: F401

from clusterjobs.lab.lab import until

pytestmark = [pytest.mark.lab, pytest.mark.frameworks, pytest.mark.slow]

HERE = pathlib.Path(__file__).parent
LAUNCHERS = ("deepspeed-pdsh", "horovodrun", "mpirun")
OF_THE_JOB = (
    "ssh_serve.py",
    "ssh_run.py",
    "sshd -D",
    "orted",
    "mpirun",
    "horovodrun",
    "pdsh",
    str(HERE),
)


def spec_of(jobs, prepared: Prepared, name: str, launcher: str, **keys: Any):  # noqa: F811
    deepspeed = launcher == "deepspeed-pdsh"
    batch = {"batch": {"micro": 2, "global": 16}} if deepspeed else {}
    own = {
        "framework": "deepspeed" if deepspeed else "horovod",
        "launcher": launcher,
        "software": {"venv": str(prepared.venv)},
        "time_limit": "00:30:00",
    }
    return jobs.spec(f"{name}-{launcher}", **{**own, **batch, **keys})


def start(jobs, prepared: Prepared, launcher: str, *options: str) -> Running:  # noqa: F811
    name = f"steps-{len(options)}"
    folder = f"/fsx/faults/{name}-{launcher}"
    spec = spec_of(
        *(jobs, prepared, name, launcher),
        script=str(STEPS),
        args=[folder, *options],
        checkpoints={"path": f"{folder}/checkpoints", "marker": "latest"},
        restarts={"time_limit": 3, "failure": 0, "grace_seconds": 5},
    )
    job_id = jobs.submit(jobs.render(spec), **prepared.environment)
    return Running(jobs.lab, job_id, jobs.lab.folder.shared("/fsx") / folder.removeprefix("/fsx/"))


def left_on_the_nodes(jobs) -> str:
    """Command lines of ranks, launchers and daemons that still run, with their nodes."""
    return "\n".join(
        f"{node}: {line}"
        for node in jobs.lab.facts.nodes
        for line in jobs.lab.node_run(node, ["ps", "-eo", "args="]).stdout.splitlines()
        if any(word in line for word in OF_THE_JOB)
    )


def check_nothing_is_left(jobs, job: Running) -> None:
    until(lambda: not left_on_the_nodes(jobs), 120, lambda: left_on_the_nodes(jobs))
    assert not list((jobs.lab.folder.shared("/fsx") / "logs" / job.job_id).glob("ssh.*"))


def say_the_limit_is_near(job: Running) -> None:
    job.reach_step(15)
    job.scancel("--batch", "--signal=USR1")  # what Slurm does for --signal=B:USR1@...


def reasons(job: Running) -> list[str]:
    return [one["reason"] for one in job.records()]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_ranks_save_at_the_time_limit_and_go_on(jobs, prepared, launcher: str) -> None:  # noqa: F811
    job = start(jobs, prepared, launcher)
    say_the_limit_is_near(job)
    assert job.wait() == 0, job.log()
    assert reasons(job) == ["time_limit", "completed"]
    assert job.trace()[1][0] == job.trace()[0][-1], "a step was done twice"
    check_nothing_is_left(jobs, job)


@pytest.mark.parametrize("launcher", ["horovodrun", "mpirun"])
def test_ranks_that_hear_nothing_are_ended_before_the_job_comes_back(
    jobs,
    prepared,  # noqa: F811
    launcher: str,
) -> None:
    job = start(jobs, prepared, launcher, "--deaf", "--seconds", "0.3")
    say_the_limit_is_near(job)
    until(lambda: len(job.trace()) == 2, TIMEOUT, job.log)
    alive = [rank for rank in range(4) if is_alive(jobs, job, attempt=0, rank=rank)]
    assert alive == [], f"ranks of the first attempt, beside those of the second: {job.log()}"
    job.scancel()
    job.wait()
    assert reasons(job) == ["time_limit", "cancelled"]
    check_nothing_is_left(jobs, job)


def is_alive(jobs, job: Running, attempt: int, rank: int) -> bool:
    pid = (job.folder / f"pid.{attempt}.{rank}").read_text()
    shown = jobs.lab.node_run(jobs.lab.facts.nodes[rank // 2], ["ps", "-o", "args=", "-p", pid])
    return str(STEPS) in shown.stdout


def test_ranks_of_horovodrun_that_are_told_to_end_may_save_first(jobs, prepared) -> None:  # noqa: F811
    folder = jobs.lab.folder.shared("/fsx") / "told"
    spec = spec_of(
        *(jobs, prepared, "told", "horovodrun"),
        script=str(HERE / "save_on_term.py"),
        args=["/fsx/told"],
    )
    job = Running(jobs.lab, jobs.submit(jobs.render(spec), **prepared.environment), folder)
    until(lambda: len(list(folder.glob("*.started"))) == 4, TIMEOUT, job.log)
    job.scancel()
    job.wait()
    until(lambda: "ended with exit code" in job.log(), TIMEOUT, job.log)
    assert len(list(folder.glob("*.saved"))) == 4, job.log()
    assert reasons(job) == ["cancelled"]
    check_nothing_is_left(jobs, job)
