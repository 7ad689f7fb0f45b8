"""Jobs that are started again: arrays, chains, other launchers, and a controller that restarts."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from faults import STEPS, TIMEOUT, Running
from lab_mounts import mount_tmpfs

from clusterjobs.lab.breakage import restart_controller
from clusterjobs.lab.lab import until

pytestmark = pytest.mark.lab


def spec_of(jobs, name: str, *options: str, **keys: Any) -> dict[str, Any]:
    folder = f"/fsx/faults/{name}"
    wanted = {
        "framework": "command",
        "command": ["python3", str(STEPS), folder, *options],
        "time_limit": "00:30:00",
        "checkpoints": {"path": f"{folder}/checkpoints", "marker": "latest"},
        "restarts": {"time_limit": 3, "failure": 1, "grace_seconds": 5},
        **keys,
    }
    return jobs.spec(name, **wanted)


def start(jobs, name: str, *options: str, **keys: Any) -> Running:
    job_id = jobs.submit(jobs.render(spec_of(jobs, name, *options, **keys)))
    return Running(jobs.lab, job_id, jobs.lab.folder.shared("/fsx") / "faults" / name)


def reasons(job: Running) -> list[str]:
    return [one["reason"] for one in job.records()]


def test_the_controller_may_restart_under_a_job(jobs) -> None:
    job = start(jobs, "controller", "--seconds", "0.2")
    job.reach_step(15)
    restart_controller(jobs.lab)
    assert job.wait() == 0
    assert reasons(job) == ["completed"]


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_each_launcher_passes_the_word_on(jobs, launcher: str) -> None:
    job = start(jobs, f"by-{launcher}", launcher=launcher)
    job.reach_step(15)
    job.scancel("--batch", "--signal=USR1")
    assert job.wait() == 0
    assert reasons(job) == ["time_limit", "completed"]
    assert job.trace()[1][0] == job.trace()[0][-1], "a step was done twice"


def test_ranks_can_be_told_by_a_signal_too(jobs) -> None:
    program = "trap 'touch /fsx/faults/told.$RANK; exit' USR2; while :; do sleep 0.1; done"
    job = start(
        *(jobs, "signalled"),
        command=["bash", "-c", f"touch /fsx/faults/ready.$RANK; {program}"],
        restarts={"time_limit": 0, "grace_seconds": 30, "signal": "USR2"},
    )
    folder = job.folder.parent
    until(lambda: len(list(folder.glob("ready.*"))) == 4, TIMEOUT, job.log)
    job.scancel("--batch", "--signal=USR1")
    assert job.wait() == 124
    assert len(list(folder.glob("told.*"))) == 4, job.log()
    assert "restarts.time_limit allows 0" in job.log()


def test_a_job_told_before_its_ranks_exist_comes_back(jobs) -> None:
    wait = 'mkdir -p /fsx/faults/early; touch /fsx/faults/early/begun; sleep "$1"'
    first_only = f"[[ ${{SLURM_RESTART_COUNT:-0}} != 0 ]] || {{ {wait}; }}"
    job = start(jobs, "early", before=[["bash", "-c", first_only, "wait", "3"]])
    job.reach("begun")
    job.scancel("--batch", "--signal=USR1")
    assert job.wait() == 0
    assert reasons(job) == ["time_limit", "completed"]
    assert len(job.trace()) == 1


def test_a_cancelled_job_does_not_come_back_though_it_was_told_of_the_limit(jobs) -> None:
    job = start(
        *(jobs, "both", "--deaf", "--seconds", "0.5"),
        restarts={"time_limit": 9, "grace_seconds": 60},
    )
    job.reach_step(3)
    job.scancel("--batch", "--signal=USR1")
    until(lambda: "time limit is near" in job.log(), TIMEOUT, job.log)
    job.scancel()
    job.wait()
    assert jobs.lab.job(job.job_id).state == "CANCELLED"
    assert reasons(job) == ["cancelled"]


def test_what_the_script_itself_refuses_is_not_tried_again(jobs) -> None:
    job = start(jobs, "refused", software={"venv": "/nowhere"})
    assert job.wait() == 1
    assert reasons(job) == ["not_started"]
    assert "no virtual environment" in job.log()


def test_a_job_whose_folder_is_full_says_the_truth_and_does_not_come_back(jobs) -> None:
    """Its records cannot be written, by which restarts are counted."""
    job = start(jobs, "full", "--seconds", "0.2", restarts={"failure": 3})
    job.reach_step(5)
    folder = f"/fsx/logs/{job.job_id}"
    node = job.nodes()[0]
    mount_tmpfs(jobs.lab, node, folder, "size=4k,nr_inodes=2")
    fill = ["bash", "-c", 'head -c 9999 /dev/zero > "$1/x"', "fill", folder]
    assert "No space left" in jobs.lab.node_run(node, fill).stderr
    job.kill_rank(3)
    assert job.wait() not in (0, None)
    assert "no restart: attempt.py does not run" in job.log()  # it is in that folder, too
    assert len(job.trace()) == 1


def test_a_training_that_is_done_is_not_done_again_for_the_sake_of_what_follows(jobs) -> None:
    wait = "touch /fsx/faults/after/begun; sleep 3"
    job = start(jobs, "after", after=[["bash", "-c", wait]])
    job.reach("begun")
    job.scancel("--batch", "--signal=USR1")
    assert job.wait() == 0
    assert reasons(job) == ["completed"]


def test_a_training_that_is_done_is_not_done_again_if_what_follows_fails(jobs) -> None:
    job = start(jobs, "after-fails", "--seconds", "0.1", after=["false"], restarts={"failure": 2})
    assert job.wait() == 1
    assert reasons(job) == ["after_failure"]
    assert len(job.trace()) == 1


def test_each_task_of_an_array_is_requeued_alone(jobs) -> None:
    own_folder = "/fsx/faults/task-${SLURM_ARRAY_TASK_ID}"
    run = f'exec python3 "$1" "{own_folder}" --seconds 0.2'
    script = jobs.render(
        spec_of(
            *(jobs, "array"),
            nodes=1,
            command=["bash", "-c", run, "task", str(STEPS)],
            checkpoints={
                "path": "/fsx/faults/task-{{ job.array_index }}/checkpoints",
                "marker": "latest",
            },
            sbatch={"array": "1-2"},
        )
    )
    array = jobs.lab.sbatch(script, cwd=script.parent)
    tasks = [running_task(jobs, array, number) for number in (1, 2)]
    for task in tasks:
        task.reach_step(5)
    told = jobs.lab.run(["scancel", "--batch", "--signal=USR1", f"{array}_2"])
    assert told.returncode == 0, told.stderr
    assert [task.wait() for task in tasks] == [0, 0]
    assert [reasons(task) for task in tasks] == [["completed"], ["time_limit", "completed"]]


def running_task(jobs, array: str, number: int) -> Running:
    """A task by the id that Slurm gives it as a job, once it has started."""
    ask = ["squeue", "--noheader", "--states=RUNNING", "--Format=JobID", f"--job={array}_{number}"]
    raw = until(lambda: jobs.lab.run(ask).stdout.strip(), TIMEOUT, lambda: "no task")
    return Running(jobs.lab, raw, jobs.lab.folder.shared("/fsx") / "faults" / f"task-{number}")


def test_who_waits_for_the_job_waits_for_its_last_attempt(jobs, tmp_path: pathlib.Path) -> None:
    job = start(jobs, "chain", "--seconds", "0.2")
    after = tmp_path / "after.sh"
    after.write_text("#!/bin/bash\ncp /fsx/faults/chain/trace /fsx/faults/chain/trace-then\n")
    dependent = jobs.lab.sbatch(after, f"--dependency=afterok:{job.job_id}", "--output=/dev/null")
    job.reach_step(15)
    job.scancel("--batch", "--signal=USR1")
    assert job.wait() == 0
    assert jobs.lab.wait(dependent, TIMEOUT).exit_code == 0
    seen = (job.folder / "trace-then").read_text().split()
    assert seen[-1] == "60", "it ran before the job was done"
