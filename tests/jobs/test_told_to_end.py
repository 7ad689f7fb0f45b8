"""A job that is told to end: its ranks may finish what they do, and the exit code is theirs."""

from __future__ import annotations

import pathlib

import pytest

from clusterjobs.lab.polling import until

pytestmark = pytest.mark.lab

SAVER = pathlib.Path(__file__).with_name("save_on_term.py")


def test_ranks_that_are_told_to_end_may_save_first(jobs) -> None:
    folder = jobs.lab.folder.shared("/fsx") / "told"
    spec = jobs.spec("told", framework="command", command=["python3", str(SAVER), "/fsx/told"])
    job_id = jobs.submit(jobs.render(spec))
    until(lambda: len(list(folder.glob("*.started"))) == 4, 30, lambda: "no ranks")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "told")
    assert len(list(folder.glob("*.saved"))) == 4, ended.log
    assert "told to end (cancelled), waiting for the ranks" in ended.log
    assert f"job {job_id} ended with exit code 0" not in ended.log
    assert f"job {job_id} ended with exit code" in ended.log


def test_a_job_that_is_cancelled_before_its_training_does_not_start_it(jobs) -> None:
    folder = jobs.lab.folder.shared("/fsx")
    wait = "touch /fsx/early.begun; sleep 300"
    spec = jobs.spec("early", framework="command", before=[["bash", "-c", wait]])
    job_id = jobs.submit(jobs.render(spec))
    until(lambda: (folder / "early.begun").exists(), 30, lambda: "not begun")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "early")
    assert ended.ranks == {}
    assert "ended with exit code 143" in ended.log
