"""Commands do not wait for ever: for a frozen controller, a pipe, or a log that is gone."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_squeue import row, write_squeue
from sweep_on_disk import SweepOnDisk

from clusterjobs import files
from clusterjobs.files import GrowingFile
from clusterjobs.runs.follow.one_job import POLL_SECONDS
from clusterjobs.slurm import queue

Run = Callable[..., Any]
SAID = "squeue: Slurm does not answer in 0 s: only what the jobs have recorded is known"


@pytest.fixture
def sweep(folder: pathlib.Path) -> SweepOnDisk:
    made = SweepOnDisk(folder, 2)
    made.submitted("70", range(2))
    made.job(0, "71", "completed", "done\n")
    made.job(1, "72", "", "half\n")
    return made


@pytest.fixture
def frozen(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """squeue, as it is while the controller is frozen."""
    programs = tmp_path / "bin"
    programs.mkdir()
    squeue = programs / "squeue"
    squeue.write_text(f"#!{sys.executable} -IS\nimport time\ntime.sleep(600)\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(queue, "PATIENCE", 0.3)


@pytest.mark.usefixtures("frozen")
def test_status_shows_what_is_recorded_if_slurm_does_not_answer(
    clusterjobs: Run, sweep: SweepOnDisk
) -> None:
    done = clusterjobs("status", "sweep.yaml", "--json")
    shown = json.loads(done.out)
    assert (done.code, SAID in done.err, SAID in shown["slurm_problem"]) == (0, True, True)
    assert shown["sweeps"][0]["counts"] == {"completed": 1, "unknown": 1}
    done = clusterjobs("status", "sweep.yaml")
    assert (done.code, SAID in done.err) == (0, True)
    mine = clusterjobs("status")
    assert (mine.code, SAID in mine.err) == (1, True)
    pathlib.Path("new.yaml").write_text(
        "{name: new, cluster: small, framework: command, command: [./x], logs: logs}"
    )
    for command in ("status", "logs"):
        new = clusterjobs(command, "new.yaml")
        assert (new.code, "what is in the queue is not known" in new.err) == (1, True)
        assert "is in the queue, and" not in new.err
    watched = clusterjobs("status", "sweep.yaml", "--watch")
    assert (watched.code, SAID in watched.err) == (1, True)


@pytest.mark.usefixtures("frozen")
def test_results_and_logs_answer_without_slurm(clusterjobs: Run, sweep: SweepOnDisk) -> None:
    done = clusterjobs("results", "sweep.yaml")
    assert (done.code, SAID in done.err, "completed" in done.out) == (0, True, True)
    for options in ((), ("--follow",)):
        done = clusterjobs("logs", "sweep.yaml", "1", *options)
        assert (done.code, done.out, SAID in done.err) == (0, "half\n", True)
    assert clusterjobs("report", "sweep.yaml").code == 0


@pytest.mark.usefixtures("frozen")
def test_submit_and_cancel_do_not_guess(
    clusterjobs: Run, sweep: SweepOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise queue.SlurmError([])

    monkeypatch.setattr(queue, "_squeue", refuse)
    for command in ("submit", "cancel"):
        assert clusterjobs(command, "sweep.yaml").code == 1


# ------------------------------------------------------------------ pipes


def test_a_pipe_into_which_nobody_writes_is_an_error(
    clusterjobs: Run, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PATIENCE", 0.2)
    os.mkfifo("pipe.yaml")
    os.mkfifo("pipe.log")
    for command in (
        ("plan", "pipe.yaml"),
        ("status", "pipe.yaml"),
        ("submit", "pipe.yaml"),
        ("report", "pipe.log"),
        ("clusters", "import", "x", "--from-files", "pipe.log"),
    ):
        done = clusterjobs(*command)
        assert (done.code, "nobody writes into this pipe" in done.err) == (1, True), done.err


def test_a_device_without_an_end_is_no_log(clusterjobs: Run) -> None:
    done = clusterjobs("report", "/dev/full")
    assert (done.code, done.err) == (1, "cannot read /dev/full: it is a device, and not a file\n")


def test_a_pipe_into_which_a_program_writes_is_read(clusterjobs: Run, folder: pathlib.Path) -> None:
    os.mkfifo("pipe.yaml")
    spec = "name: x\ncluster: small\nframework: command\ncommand: ./run\n"
    writer = threading.Thread(target=pathlib.Path("pipe.yaml").write_text, args=[spec])
    writer.start()
    assert clusterjobs("plan", "pipe.yaml").code == 0
    writer.join()


# ------------------------------------------------------------------ logs that are gone


@pytest.mark.parametrize("how", ["renamed", "removed"])
def test_a_log_that_is_gone_while_it_is_followed_is_an_error(
    clusterjobs: Run,
    sweep: SweepOnDisk,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    task = {"array": "70", "index": "1"}
    write_squeue(programs, row("72", "RUNNING", **task))
    monkeypatch.setenv("PATH", str(programs))
    (log,) = sweep.folder.glob("0001-*/72/job.log")

    def lose(seconds: float) -> None:
        if seconds == POLL_SECONDS and log.exists():  # subprocess sleeps, too
            log.rename(log.with_name("old.log"))
            if how == "removed":
                log.with_name("old.log").unlink()
            write_squeue(programs, row("72", "COMPLETED", **task))

    monkeypatch.setattr("time.sleep", lose)
    monkeypatch.setattr("clusterjobs.runs.follow.one_job._FIRST", 0.0)
    done = clusterjobs("logs", "sweep.yaml", "1", "--follow")
    assert (done.code, done.out) == (1, "half\n")
    assert f"there is no {log}: it was renamed or removed" in done.err


def test_a_new_file_of_the_same_name_is_read_from_its_start(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("one\n")
    growing = GrowingFile(log)
    assert growing.new_text() == "one\n"
    log.rename(tmp_path / "old")
    assert (growing.new_text(), growing.is_gone) == ("", True)
    log.write_text("another, which is longer\n")
    assert (growing.new_text(), growing.is_gone) == ("another, which is longer\n", False)
