"""run: submits, follows to the end, exits with the job's exit code; with stand-ins for Slurm."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
import jsonschema
import pytest
from stand_in_slurm import StandInSlurm
from stand_in_squeue import row
from terminal import Terminal

from clusterjobs.lab.lab import until
from clusterjobs.runs.follow import interrupts as leave_running
from clusterjobs.runs.follow import one_job as polled_queue
from clusterjobs.runs.follow.interrupts import postponed_interrupts

SPEC = "name: tiny\ncluster: small\nframework: command\ncommand: [./train]\nlogs: {logs}\n"
SWEEP = SPEC + "sweep: {{grid: {{args.lr: [1e-3, 3e-4]}}}}\n"


@pytest.fixture
def slurm(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    """Slurm's commands, and specs whose logs are in the working folder."""
    slurm = StandInSlurm(folder.parent / "bin")
    monkeypatch.setenv("PATH", slurm.path)
    monkeypatch.setattr(polled_queue, "_FIRST", 0)
    monkeypatch.setattr(polled_queue, "_LAST", 0)
    scancel = slurm.folder / "scancel"
    scancel.write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" > {slurm.folder}/cancelled\n')
    scancel.chmod(0o755)
    (folder / "exp.yaml").write_text(SPEC.format(logs=folder / "logs"))
    (folder / "sweep.yaml").write_text(SWEEP.format(logs=folder / "logs"))
    return slurm


@pytest.fixture
def then(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`then(step, ...)`: what happens between two looks at the job."""

    def script(*steps: Callable[[], object]) -> None:
        left = list(steps)

        def wait(_: float) -> None:
            assert left, "it still waits after the last step"
            left.pop(0)()

        monkeypatch.setattr("time.sleep", wait)

    return script


class Job:
    """A job as the stand-ins show it."""

    def __init__(self, slurm: StandInSlurm, folder: pathlib.Path, job_id: str = "100") -> None:
        self.slurm, self.job_id, self.folder = slurm, job_id, folder / job_id

    def is_(self, state: str, **more: str) -> Callable[[], None]:
        return lambda: self.slurm.set_queue(row(self.job_id, state, **more))

    def prints(self, text: str) -> Callable[[], None]:
        def write() -> None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "plan.json").write_text("{}")
            with (self.folder / "job.log").open("a") as log:
                log.write(text)

        return write

    def records(self, reason: str, exit_code: int, attempt: int = 1) -> Callable[[], None]:
        record = {"attempt": attempt, "reason": reason, "exit_code": exit_code, "ended": 5}

        def write() -> None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "attempts.jsonl").open("a") as file:
                file.write(json.dumps(record) + "\n")

        return write


def together(*steps: Callable[[], object]) -> Callable[[], object]:
    return lambda: [step() for step in steps]


def test_a_job_is_followed_from_the_queue_to_its_end(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    job = Job(slurm, folder / "logs")
    then(
        job.is_("PENDING", reason="Resources"),
        job.is_("PENDING", reason="Resources", start="2026-11-22T15:04:05"),
        together(job.is_("RUNNING"), job.prints("0: loss 9\n")),
        job.prints("0: loss"),
        job.prints(" 8\n"),
        together(job.records("completed", 0), job.prints("the end\n"), job.is_("COMPLETED")),
    )
    done = clusterjobs("run", "exp.yaml")
    assert done.code == 0
    assert done.out == "0: loss 9\n0: loss 8\nthe end\n"
    assert done.err.splitlines()[-4:] == [
        "submitted job 100",
        "job 100 is pending: jobs of higher priority go first (Priority)",
        "job 100 is pending: no nodes are free yet (Resources)",
        "job 100 completed",
    ]


def test_json_is_all_of_stdout_and_the_log_is_on_stderr(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    job = Job(slurm, folder / "logs")
    then(
        together(job.is_("RUNNING"), job.prints("0: loss 9\n")),
        together(job.records("failure", 3), job.is_("FAILED")),
    )
    done = clusterjobs("run", "exp.yaml", "--json")
    answer = json.loads(done.out)
    assert "0: loss 9\n" in done.err
    assert (done.code, answer["exit_code"], answer["job_ids"]) == (3, 3, ["100"])
    assert [one["state"] for one in answer["points"]] == ["failure"]
    jsonschema.validate(answer, json.loads(clusterjobs("schema", "--of", "run").out))


@pytest.mark.parametrize(
    ("reason", "code", "state"),
    [("failure", 3, "FAILED"), ("time_limit", 124, "TIMEOUT"), ("cancelled", 143, "CANCELLED")],
)
def test_the_exit_code_is_the_jobs(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
    reason: str,
    code: int,
    state: str,
) -> None:
    job = Job(slurm, folder / "logs")
    then(together(job.prints("x\n"), job.records(reason, code), job.is_(state)))
    done = clusterjobs("run", "exp.yaml")
    assert (done.code, done.out) == (code, "x\n")
    assert done.err.splitlines()[-1] == f"job 100 ended: {reason}, exit code {code}"


def test_a_job_is_followed_over_its_attempts(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    job = Job(slurm, folder / "logs")
    ended = "clusterjobs: job 100 ended with exit code 124 after 9 s: time_limit\n"
    then(
        together(job.is_("RUNNING"), job.prints("one\n")),
        together(job.records("time_limit", 124), job.prints(ended)),
        job.is_("PENDING", reason="BeginTime"),
        together(job.is_("RUNNING"), job.prints("two\n")),
        together(job.records("completed", 0, attempt=2), job.is_("COMPLETED")),
    )
    done = clusterjobs("run", "exp.yaml")
    assert (done.code, done.out) == (0, f"one\n{ended}two\n")
    assert done.err.splitlines()[-2:] == [
        "job 100 is pending: its start time is in the future: --begin, or Slurm has requeued it "
        "(BeginTime)",
        "job 100 completed, in attempt 2",
    ]


def test_a_job_that_is_cancelled_before_it_starts(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    then(Job(slurm, folder / "logs").is_("CANCELLED"))
    done = clusterjobs("run", "exp.yaml")
    assert (done.code, done.out) == (143, "")
    assert done.err.splitlines()[-1] == "job 100 ended: cancelled, exit code 143"


def test_a_job_that_slurm_forgets_is_known_by_its_record(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    job = Job(slurm, folder / "logs")
    then(together(job.prints("x\n"), job.records("failure", 7), slurm.set_queue))
    assert clusterjobs("run", "exp.yaml").code == 7
    job = Job(slurm, folder / "logs", "10100")
    then(together(job.prints("x\n"), slurm.set_queue))
    done = clusterjobs("run", "exp.yaml")
    assert done.code == 1
    assert "job 10100: attempt 1 began and has no record" in done.err


def test_a_controller_that_does_not_answer_is_asked_again(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    job, squeue = Job(slurm, folder / "logs"), slurm.folder / "squeue"
    program = squeue.read_text()
    said = "slurm_load_jobs error: Unable to contact slurm controller"
    down = f"#!/bin/bash\necho '{said}' >&2; exit 1\n"
    then(
        together(job.is_("RUNNING"), job.prints("x\n")),
        lambda: squeue.write_text(down),
        lambda: None,
        lambda: squeue.write_text(program),
        together(job.records("completed", 0), job.is_("COMPLETED")),
    )
    done = clusterjobs("run", "exp.yaml")
    assert (done.code, done.out) == (0, "x\n")
    assert done.err.count("Unable to contact slurm controller; asking again") == 1


def test_a_job_that_ended_before_it_had_a_folder_is_shown_by_its_output(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    (folder / "tiny-100.out").write_text("clusterjobs: /fsx is not safe\n")
    shown = f"JobId=100 JobName=tiny StdOut={folder}/tiny-100.out "
    (slurm.folder / "scontrol").write_text(f"#!/bin/bash\necho '{shown}'\n")
    then(Job(slurm, folder / "logs").is_("FAILED"))
    done = clusterjobs("run", "exp.yaml")
    assert (done.code, done.out) == (1, "clusterjobs: /fsx is not safe\n")


def test_the_tasks_of_an_array_are_followed(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    with (folder / "exp.yaml").open("a") as spec:
        spec.write("sbatch: {array: 0-1}\n")

    def tasks(*states: str) -> Callable[[], None]:
        ids = (("101", "0"), ("100", "1"))
        rows = [
            row(own if state != "PENDING" else "100", state, array="100", index=index)
            for (own, index), state in zip(ids, states, strict=True)
        ]
        return lambda: slurm.set_queue(*rows)

    logs = folder / "logs"
    then(
        tasks("RUNNING", "PENDING"),
        together(Job(slurm, logs, "101").records("completed", 0), tasks("COMPLETED", "RUNNING")),
        together(Job(slurm, logs, "100").records("failure", 5), tasks("COMPLETED", "FAILED")),
    )
    done = clusterjobs("run", "exp.yaml")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-6:] == [
        "2 pending",
        "pending: jobs of higher priority go first (Priority)",
        "100_0: running, job 100_0 (1 running, 1 pending)",
        "100_0: completed (1 completed, 1 running)",
        "100_1: running, job 100_1 (1 completed, 1 running)",
        "100_1: failed: failure, exit code 5 (1 completed, 1 failed)",
    ]


def test_the_points_of_a_sweep_are_followed(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    folder: pathlib.Path,
) -> None:
    first, second = "0000-lr=1e-3-", "0001-lr=3e-4-"

    def points() -> dict[str, str]:
        (line,) = {
            json.dumps(json.loads(line)["points"])
            for line in (folder / "logs/tiny/submissions.jsonl").read_text().splitlines()
        }
        found: dict[str, str] = json.loads(line)
        return found

    def ends(task: str, own: str, reason: str) -> Callable[[], object]:
        def end() -> None:
            job = Job(slurm, folder / "logs/tiny" / points()[task], own)
            job.prints("x\n")()
            job.records(reason, 0 if reason == "completed" else 9)()

        return end

    def running(*indexes: str) -> Callable[[], None]:
        rows = [row(f"20{one}", "RUNNING", array="100", index=one) for one in indexes]
        return lambda: slurm.set_queue(*rows)

    then(
        running("0", "1"),
        together(ends("0", "200", "completed"), running("1")),
        together(ends("1", "201", "failure"), running()),
    )
    done = clusterjobs("run", "sweep.yaml")
    lines = done.err.splitlines()[-7:]
    assert done.code == 1
    assert lines[0].startswith("2 points submitted")
    assert lines[1] == "2 pending"
    assert [line for line in lines if first in line][-1].endswith(
        "completed (1 completed, 1 running)"
    )
    last = "failed: failure, exit code 9 (1 completed, 1 failed)"
    assert lines[-1].startswith(second)
    assert lines[-1].endswith(last)
    again = clusterjobs("run", "sweep.yaml", "--points", "0")
    assert again.code == 0
    assert "nothing to submit" in again.err


def interrupted() -> None:
    raise KeyboardInterrupt


def test_without_a_terminal_ctrl_c_leaves_the_job_running(
    clusterjobs: Callable[..., Any], slurm: StandInSlurm, then: Callable[..., None]
) -> None:
    then(interrupted)
    done = clusterjobs("run", "exp.yaml")
    assert done.code == 130
    assert done.err.splitlines()[-3:] == [
        "job 100 goes on",
        "  to follow it: clusterjobs logs exp.yaml 100 --follow",
        "  to cancel it: clusterjobs cancel 100",
    ]
    assert not (slurm.folder / "cancelled").exists()


@pytest.mark.parametrize(("answer", "cancelled"), [(True, "--\n100\n"), (False, ""), (None, "")])
def test_on_a_terminal_ctrl_c_asks(
    clusterjobs: Callable[..., Any],
    slurm: StandInSlurm,
    then: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    answer: bool | None,
    cancelled: str,
) -> None:
    def confirm(_text: str, **_options: object) -> bool:
        if answer is None:  # Ctrl-C again
            raise click.Abort
        return answer

    monkeypatch.setattr(leave_running, "is_interactive", lambda: True)
    monkeypatch.setattr(click, "confirm", confirm)
    then(interrupted)
    done = clusterjobs("run", "exp.yaml")
    assert done.code == 130
    file = slurm.folder / "cancelled"
    assert (file.read_text() if file.exists() else "") == cancelled
    assert ("job 100 is cancelled" in done.err) == bool(cancelled)
    assert ("job 100 goes on" in done.err) != bool(cancelled)


# SIGINT is ignored if pytest runs in the background.
CODE = """\
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)
from clusterjobs.cli.main import main; main()"""
PROGRAM = [sys.executable, "-c", CODE]


def test_a_reader_that_ends_leaves_the_job_running(
    slurm: StandInSlurm, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # with it, Python hides the first EPIPE
    log = folder / "logs" / "100"
    log.mkdir(parents=True)
    (log / "job.log").write_text("x\n" * 1_000_000)
    with subprocess.Popen(
        [*PROGRAM, "run", "exp.yaml"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout
        assert run.stderr
        assert run.stdout.readline() == "x\n"
        run.stdout.close()
        assert "job 100 goes on" in run.stderr.read()
    assert run.returncode == 141
    assert not (slurm.folder / "cancelled").exists()


@pytest.mark.parametrize(
    ("typed", "cancelled"),
    [("y\n", True), ("n\n", False), ("\n", False), ("\x03", False)],
    ids=["yes", "no", "enter", "ctrl-c"],
)
def test_ctrl_c_on_a_terminal(
    slurm: StandInSlurm, folder: pathlib.Path, typed: str, cancelled: bool
) -> None:
    log = folder / "logs" / "100"
    log.mkdir(parents=True)
    (log / "job.log").write_text("0: first line\n")
    with Terminal([*PROGRAM, "run", "exp.yaml"]) as terminal:
        terminal.read_until("first line")
        terminal.write("\x03")
        terminal.read_until("cancel job 100? Otherwise it goes on [y/N]: ")
        terminal.write(typed)
        assert terminal.wait(again=typed) == 130
    assert ("job 100 is cancelled" if cancelled else "job 100 goes on") in terminal.said
    assert (slurm.folder / "cancelled").exists() == cancelled


@pytest.mark.parametrize(("spec", "job_id"), [("exp.yaml", "100"), ("final.yaml", "10100")])
def test_ctrl_c_while_sbatch_runs_waits_for_its_answer(
    slurm: StandInSlurm, folder: pathlib.Path, spec: str, job_id: str
) -> None:
    """Also where another spec is submitted first: the job's id is said in any case."""
    final = SPEC.format(logs=folder / "logs").replace("tiny", "final")
    (folder / "final.yaml").write_text(f"{final}needs: [exp.yaml]\n")
    sbatch = slurm.folder / "sbatch"
    sbatch.rename(slurm.folder / "real-sbatch")
    sbatch.write_text(
        f"#!/bin/bash\ntouch {slurm.folder}/asked\n"
        f"until [[ -e {slurm.folder}/go ]]; do sleep 0.1; done\n"
        f'exec {slurm.folder}/real-sbatch "$@"\n'
    )
    sbatch.chmod(0o755)
    with Terminal([*PROGRAM, "run", spec]) as terminal:
        until((slurm.folder / "asked").exists, 120, lambda: terminal.said)
        terminal.write("\x03")
        terminal.read_until("sbatch is running")
        (slurm.folder / "go").touch()
        terminal.read_until(f"cancel job {job_id}?")
        terminal.write("y\n")
        terminal.read_until(f"job {job_id} is cancelled")
        assert terminal.wait() == 130


def test_an_ignored_signal_stays_ignored() -> None:
    """As SIGHUP under nohup."""
    said: list[str] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with postponed_interrupts(lambda: said.append("")):
            signal.raise_signal(signal.SIGHUP)
        assert (said, signal.getsignal(signal.SIGHUP)) == ([], signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_refused_job_is_an_error(clusterjobs: Callable[..., Any], slurm: StandInSlurm) -> None:
    slurm.refuse("Invalid partition")
    done = clusterjobs("run", "exp.yaml")
    assert done.code == 1
    assert "sbatch refused the job" in done.err


def test_points_of_a_spec_without_a_sweep_are_a_usage_error(
    clusterjobs: Callable[..., Any], slurm: StandInSlurm
) -> None:
    assert clusterjobs("run", "exp.yaml", "--points", "3").code == 2
    assert slurm.calls() == []
