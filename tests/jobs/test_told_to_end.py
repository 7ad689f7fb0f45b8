"""A job that is told to end: its ranks may finish what they do, and the exit code is theirs."""

from __future__ import annotations

import pathlib
import re

import pytest

from clusterjobs.lab.lab import until
from clusterjobs.runs.jobs.records import read_attempts

pytestmark = pytest.mark.lab

SAVER = pathlib.Path(__file__).with_name("save_on_term.py")


def test_ranks_that_are_told_to_end_may_save_first(jobs) -> None:
    folder = jobs.lab.folder.shared("/fsx") / "told"
    spec = jobs.spec("told", framework="command", command=["python3", str(SAVER), "/fsx/told"])
    job_id = jobs.submit(jobs.render(spec))
    until(lambda: len(list(folder.glob("*.started"))) == 4, 120, lambda: "no ranks")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "told")
    assert len(list(folder.glob("*.saved"))) == 4, ended.log
    assert "got SIGTERM during run_ranks (cancelled): waiting for the ranks" in ended.log
    assert f"job {job_id} ended with exit code 0" not in ended.log
    assert f"job {job_id} ended with exit code" in ended.log


def test_a_job_that_is_cancelled_before_its_training_does_not_start_it(jobs) -> None:
    folder = jobs.lab.folder.shared("/fsx")
    wait = "touch /fsx/early.begun; sleep 300"
    spec = jobs.spec("early", framework="command", before=[["bash", "-c", wait]])
    job_id = jobs.submit(jobs.render(spec))
    until(lambda: (folder / "early.begun").exists(), 120, lambda: "not begun")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "early")
    assert ended.ranks == {}
    assert "ended with exit code 143" in ended.log


@pytest.mark.parametrize("ranks_end", ["well", "badly"])
def test_a_script_that_hears_of_its_end_last_is_cancelled_all_the_same(
    jobs, ranks_end: str
) -> None:
    """Slurm ends the steps first. It has not failed, is not done, and does not come back.

    It knows so from squeue, whatever the shell that called sbatch would like squeue to show.
    """
    name = f"last-{ranks_end}"
    program = {"well": "trap exit TERM", "badly": ":"}[ranks_end]
    spec = jobs.spec(
        name,
        framework="command",
        command=["bash", "-c", f"{program}; touch /fsx/{name}.$RANK; while :; do sleep 0.1; done"],
        time_limit="00:30:00",
        checkpoints={"path": f"/fsx/{name}"},
        restarts={"failure": 3},
    )
    script = jobs.render(spec)
    script.write_text(script.read_text().replace("ranks=$!", "ranks=$!; trap '' TERM"))
    folder = jobs.lab.folder.shared("/fsx")
    job_id = jobs.submit(script, SQUEUE_STATES="PENDING", SQUEUE_USERS="nobody")
    until(lambda: len(list(folder.glob(f"{name}.*"))) == 4, 120, lambda: "no ranks")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, name)
    assert re.search(r"ended with exit code 143 after \d+ s: cancelled", ended.log), ended.log
    assert jobs.lab.job(job_id).state == "CANCELLED"
    assert len(read_attempts((folder / "logs" / job_id / "attempts.jsonl").read_text())) == 1
