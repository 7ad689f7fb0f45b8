"""attempt.py: what it records of the attempts of a job, and when another one may follow."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
from node_programs import command

from clusterjobs.node.job import attempt_files as program

BUDGETS = {"time_limit": 4, "failure": 3, "node_failure": 2, "stalled": 1}


class Job:
    """The folder of a job, and attempt.py run in it as the job script runs it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.marker = folder / "latest"
        self.said = ""

    def decide(self, when: str, attempt: int, *options: str) -> str:
        budgets = [f"--budget={reason}={count}" for reason, count in BUDGETS.items()]
        place = [f"--folder={self.folder}", f"--attempt={attempt}", f"--marker={self.marker}"]
        done = subprocess.run(
            command("attempt.py", when, *place, *budgets, *options),
            capture_output=True,
            text=True,
            check=True,
        )
        self.said = done.stderr.strip().removeprefix("clusterjobs: ")
        return done.stdout.strip()

    def end(self, attempt: int, reason: str, checkpoint: str = "") -> str:
        self.marker.write_text(checkpoint)
        options = [f"--reason={reason}", "--exit-code=1", "--nodes=n[1-2]", "--seconds=7"]
        return self.decide("end", attempt, *options)

    def begin(self, attempt: int) -> str:
        return self.decide("begin", attempt)

    def records(self) -> list[dict[str, Any]]:
        file = self.folder / "attempts.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def reasons(self) -> list[str]:
        return [one["reason"] for one in self.records()]


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Job:
    return Job(tmp_path)


def test_a_record_has_what_status_shows(job: Job) -> None:
    job.end(1, "failure", "step-9")
    (record,) = job.records()
    ended, began = record.pop("ended"), record.pop("began")
    assert began <= ended
    assert record == {
        "attempt": 1,
        "reason": "failure",
        "checkpoint": "step-9",
        "exit_code": 1,
        "nodes": "n[1-2]",
        "seconds": 7,
        "submitted": None,
    }


@pytest.mark.parametrize(("reason", "budget"), [("time_limit", 4), ("failure", 3), ("stalled", 1)])
def test_each_reason_has_a_budget_of_its_own(job: Job, reason: str, budget: int) -> None:
    for number in range(1, budget + 1):
        assert job.end(number, reason, f"step-{number}") == "restart"
    assert job.said == f"requeued after {reason}, from checkpoint step-{budget}"
    assert job.end(budget + 1, reason, "step-99") == "stop"
    assert job.said == f"no restart: restarts.{reason} allows {budget}" + ", all used" * bool(
        budget
    )


@pytest.mark.parametrize(
    "reason", ["completed", "cancelled", "not_started", "bad_node", "after_failure"]
)
def test_other_ends_are_recorded_and_not_restarted(job: Job, reason: str) -> None:
    assert job.end(1, reason, "step-1") == "stop"
    assert job.said == ""
    assert job.reasons() == [reason]


def test_a_role_that_ended_counts_as_a_failure(job: Job) -> None:
    for number, reason in enumerate(("failure of server", "failure", "failure of judge"), 1):
        assert job.end(number, reason, f"step-{number}") == "restart"
    assert job.said == "requeued after failure of judge, from checkpoint step-3"
    assert job.end(4, "failure of server", "step-99") == "stop"
    assert job.said == "no restart: restarts.failure allows 3, all used"


def test_two_restarts_without_a_newer_checkpoint_are_the_last(job: Job) -> None:
    assert [job.end(number, "failure", "step-9") for number in (1, 2)] == ["restart"] * 2
    assert job.end(3, "time_limit", "step-9") == "stop"
    assert job.said == "no restart: the last two brought no newer checkpoint than step-9"


def test_an_attempt_that_brought_a_checkpoint_starts_the_count_anew(job: Job) -> None:
    job.end(1, "failure", "step-8")
    job.end(2, "failure", "step-9")
    assert job.end(3, "failure", "step-9") == "restart"


def test_an_attempt_that_staged_data_counts_as_progress(job: Job) -> None:
    for number in (1, 2, 3):
        job.begin(number)
        (job.folder / "data_staged").touch()
        assert job.end(number, "failure") == "restart"
    assert [one["data_staged"] for one in job.records()] == [True] * 3
    job.begin(4)
    assert not (job.folder / "data_staged").exists()


def test_an_attempt_that_ended_at_a_bad_node_has_not_trained(job: Job) -> None:
    job.end(1, "failure", "step-9")
    for number in (2, 3, 4):
        job.end(number, "bad_node", "step-9")
    assert job.end(5, "failure", "step-9") == "restart"


def test_an_attempt_with_two_records_is_one(job: Job) -> None:
    """A lost node: the script was cancelled, and the next attempt knows why."""
    job.end(1, "cancelled", "step-9")
    job.end(1, "node_failure", "step-9")
    assert job.end(2, "failure", "step-9") == "restart"


def test_attempts_are_ordered_as_numbers(job: Job) -> None:
    for number in (6, 7, 8, 9):
        job.end(number, "time_limit", f"step-{number}")
    job.end(10, "failure", "step-9")
    assert job.end(11, "failure", "step-9") == "stop"
    assert job.said.endswith("no newer checkpoint than step-9")


def test_without_a_record_there_is_no_restart(job: Job) -> None:
    """Restarts are counted by the records: without them a job would come back for ever."""
    (job.folder / "attempts.jsonl").mkdir()
    assert job.end(1, "failure") == "stop"
    assert job.said.endswith(f"no restart: {job.folder}/attempts.jsonl cannot be written")


def test_a_record_that_was_cut_off_harms_no_later_one(job: Job) -> None:
    (job.folder / "attempts.jsonl").write_text('{"attempt": 1, "reason": "fai')
    job.end(2, "failure", "step-2")
    lines = (job.folder / "attempts.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["attempt"] == 2


def test_an_attempt_that_cannot_be_recorded_does_not_restart_by_the_record_before(job: Job) -> None:
    job.end(1, "failure", "step-1")
    log = job.folder / "attempts.jsonl"
    job.marker.write_text("step-2")
    options = ["--reason=failure", "--exit-code=1", "--seconds=7", "--budget=failure=9"]
    words = command("attempt.py", "end", f"--folder={job.folder}", "--attempt=2", *options)
    limited = ["bash", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "limited", *words]
    done = subprocess.run(limited, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "stop"
    assert f"no restart: {log} cannot be written" in done.stderr


def test_a_first_attempt_starts(job: Job) -> None:
    assert job.begin(1) == "start"
    assert job.said == ""
    assert job.records() == []


def test_an_attempt_without_a_record_was_ended_by_a_lost_node(job: Job) -> None:
    job.begin(1)
    job.marker.write_text("step-20")
    assert job.begin(2) == "start"
    assert job.said == "attempt 2, from checkpoint step-20"
    (record,) = job.records()
    assert (record["attempt"], record["reason"], record["exit_code"]) == (1, "node_failure", None)


@pytest.fixture
def squeue(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A squeue that answers with the content of the file `submitted` for one job, or a task."""
    program = tmp_path / "bin" / "squeue"
    program.parent.mkdir()
    answer = f'[[ $SLURM_TIME_FORMAT == %s && $* == *job={{}}* ]] && cat "{tmp_path}/submitted"'
    program.write_text(f"#!/bin/bash\n{answer.format('${WANTED:-7}')}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID", raising=False)
    return tmp_path / "submitted"


def test_a_record_says_when_the_attempt_was_submitted_and_began(
    job: Job, squeue: pathlib.Path
) -> None:
    squeue.write_text("1000\n")
    job.begin(1)
    job.end(1, "failure")
    assert job.records()[-1]["submitted"] == 1000
    assert job.records()[-1]["began"] <= job.records()[-1]["ended"]


def test_a_task_of_an_array_asks_for_its_own_time(
    job: Job, squeue: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last task has the id of the whole array."""
    for name, value in (("ARRAY_JOB_ID", "7"), ("ARRAY_TASK_ID", "3")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("WANTED", "7_3")
    squeue.write_text("1000\n")
    job.begin(1)
    job.end(1, "failure")
    assert job.records()[-1]["submitted"] == 1000


def test_a_lost_attempt_lasted_until_slurm_requeued_it(job: Job, squeue: pathlib.Path) -> None:
    squeue.write_text("1000\n")
    job.begin(1)
    started = job.folder / "started"
    _, began, _ = map(int, started.read_text().split())
    squeue.write_text(f"{began + 50}\n")
    job.begin(2)
    (record,) = job.records()
    assert (record["seconds"], record["began"], record["submitted"]) == (50, began, 1000)


@pytest.mark.parametrize("answer", ["", "N/A", "1000\n1001", "2026-01-01T00:00:00"])
def test_an_answer_of_squeue_that_is_no_time_is_left_out(
    job: Job, squeue: pathlib.Path, answer: str
) -> None:
    squeue.write_text(answer)
    job.begin(1)
    job.end(1, "failure")
    assert job.records()[-1]["submitted"] is None


def test_times_of_an_earlier_attempt_are_not_those_of_this_one(
    job: Job, squeue: pathlib.Path
) -> None:
    """An attempt that ends before `begin`, for example in the spec's setup."""
    squeue.write_text("1000\n")
    job.begin(1)
    squeue.write_text("1050\n")
    job.end(2, "failure")
    assert job.records()[-1]["submitted"] == 1050


def test_the_budget_of_lost_nodes_ends(job: Job) -> None:
    job.begin(1)
    answers = []
    for number in (2, 3, 4):
        job.marker.write_text(f"step-{number}")
        answers.append(job.begin(number))
    assert answers == ["start", "start", "stop"]
    assert job.said == "no restart: restarts.node_failure allows 2, all used"


@pytest.mark.parametrize(
    "reason",
    ["time_limit", "failure", "failure of server", "bad_node", "stalled", "node_failure"],
)
def test_an_attempt_that_was_requeued_by_its_script_was_not_lost(job: Job, reason: str) -> None:
    job.begin(1)
    job.end(1, reason, "step-1")
    job.begin(2)
    assert job.reasons() == [reason]


def test_a_job_that_was_told_to_end_and_came_back_had_lost_a_node(job: Job) -> None:
    job.begin(1)
    job.end(1, "cancelled", "step-1")
    job.begin(2)
    assert job.reasons() == ["cancelled", "node_failure"]


def test_an_attempt_that_never_began_is_not_counted(job: Job) -> None:
    job.begin(1)
    job.end(1, "time_limit", "step-1")
    job.begin(3)  # Slurm requeued the second attempt before its script ran
    assert job.reasons() == ["time_limit"]


def test_attempts_that_end_before_begin_are_kept_and_counted(job: Job) -> None:
    """In the spec's setup: the script has noted that they began."""
    started = job.folder / "started"
    started.write_text("1 100\n")
    assert job.end(1, "failure", "step-1") == "restart"
    with started.open("a") as file:
        file.write("2 200\n3 300\n")  # the second lost its node
    assert job.end(3, "failure", "step-2") == "restart"
    assert job.begin(4) == "start"
    assert job.reasons() == ["failure", "node_failure", "failure"]
    assert [one["began"] for one in job.records()] == [100, 200, 300]


def test_lost_attempts_count_also_if_this_one_ends_before_begin(job: Job) -> None:
    (job.folder / "started").write_text("1 100\n2 200\n3 300\n4 400\n")
    before = [{"attempt": one, "reason": "node_failure", "checkpoint": one} for one in (1, 2)]
    text = "".join(f"{json.dumps(one)}\n" for one in before)
    (job.folder / "attempts.jsonl").write_text(text)
    assert job.end(4, "failure", "step-1") == "stop"
    assert job.said == "no restart: restarts.node_failure allows 2, all used"


def test_an_attempt_behind_which_slurm_has_started_another_one_records_nothing(job: Job) -> None:
    """The script of a lost node may live on there, and end later than the next attempt begins."""
    assert [job.begin(1), job.begin(2)] == ["start", "start"]
    assert (job.end(1, "failure"), job.reasons()) == ("stop", ["node_failure"])
    assert "a later attempt" in job.said
    assert (job.end(2, "failure"), job.reasons()) == ("restart", ["node_failure", "failure"])


def test_damaged_lines_are_no_records() -> None:
    lines = ['{"attempt": 2, "rea', "[]", '{"attempt": "2"}', "\0", '{"attempt": 1}']
    assert program.read_records("\n".join(lines)) == [{"attempt": 1, "reason": ""}]


def test_the_newest_checkpoint_is_named_by_the_marker_or_the_newest_entry(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "marker").write_text('step "9"\\\nmore\n')
    newest = program.newest_checkpoint
    assert newest(str(tmp_path), str(tmp_path / "marker")) == "step _9__"
    assert newest(str(tmp_path), str(tmp_path / "none")) == ""
    assert newest(str(tmp_path / "none"), None) == ""
    assert newest(None, None) == ""
    one = newest(str(tmp_path), None)
    assert one.endswith(" marker")
    os.utime(tmp_path / "marker", (2_000_000_000, 2_000_000_000))
    assert newest(str(tmp_path), None) != one


def test_a_dangling_link_hides_no_checkpoint(tmp_path: pathlib.Path) -> None:
    (tmp_path / "latest").symlink_to(tmp_path / "gone")
    os.utime(tmp_path / "latest", (1, 1), follow_symlinks=False)
    (tmp_path / "step-7").mkdir()
    assert program.newest_checkpoint(str(tmp_path), None).endswith(" step-7")


def test_a_hidden_file_is_no_checkpoint(tmp_path: pathlib.Path) -> None:
    """Such as the record of an export, or what NFS keeps of a removed file."""
    (tmp_path / "step-7").touch()
    (tmp_path / ".exported-1.json").touch()
    os.utime(tmp_path / "step-7", (1, 1))
    assert program.newest_checkpoint(str(tmp_path), None).endswith(" step-7")


def test_long_names_of_checkpoints_keep_their_ends(tmp_path: pathlib.Path) -> None:
    (tmp_path / "marker").write_text(f"{'x' * 300}/step-7\n")
    newest = program.newest_checkpoint(None, str(tmp_path / "marker"))
    assert len(newest) == 200
    assert newest.endswith("/step-7")


def test_a_huge_marker_is_cut(tmp_path: pathlib.Path) -> None:
    (tmp_path / "marker").write_text("x" * 10_000_000)
    assert program.newest_checkpoint(None, str(tmp_path / "marker")) == "x" * 200


def test_the_script_may_say_which_checkpoint_is_the_newest(job: Job) -> None:
    job.marker.write_text("of the marker")
    job.decide("end", 1, "--reason=time_limit", "--newest=checkpoint-40")
    job.decide("end", 2, "--reason=time_limit", "--newest=")
    file = job.folder / "attempts.jsonl"
    found = [json.loads(line)["checkpoint"] for line in file.read_text().splitlines()]
    assert found == ["checkpoint-40", ""]
