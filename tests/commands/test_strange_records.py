"""status and logs over records that are missing, impossible or huge."""

from __future__ import annotations

import json
import os
import pathlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_squeue import row, write_squeue

from clusterjobs.files import GrowingFile

RECORD = (
    '{"attempt": 2, "reason": "completed", "checkpoint": "step-60", "exit_code": 0, '
    '"nodes": "n[1-2]", "seconds": 80, "ended": 99}\n'
)


class Job:
    """A spec and the folder of its job 7, which Slurm knows or not."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.spec, self.folder = folder / "exp.yaml", folder / "logs" / "7"
        self.squeue = folder / "bin" / "squeue"
        self.folder.mkdir(parents=True)
        self.squeue.parent.mkdir()
        keys = {"name": "tiny", "cluster": "small", "framework": "command", "command": ["true"]}
        self.spec.write_text(json.dumps({**keys, "logs": str(folder / "logs")}))
        plan = {"name": "tiny", "spec": {"file": "exp.yaml", "set": []}}
        (self.folder / "plan.json").write_text(json.dumps(plan))
        (self.folder / "attempts.jsonl").write_text(RECORD)
        (self.folder / "job.log").write_text("trained\n")
        self.in_queue()

    def in_queue(self, *jobs: dict[str, str]) -> None:
        write_squeue(self.squeue.parent, *jobs)


@pytest.fixture
def job(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    made = Job(tmp_path)
    monkeypatch.setenv("PATH", str(made.squeue.parent))
    return made


def attempts(clusterjobs: Callable[..., Any], job: Job) -> list[tuple[int, str, int | None]]:
    (found,) = json.loads(clusterjobs("status", job.spec, "--json").out)["jobs"]
    return [(one["number"], one["reason"], one["seconds"]) for one in found["attempts"]]


def test_an_attempt_without_a_record_is_shown_once_slurm_has_ended_the_job(
    clusterjobs: Callable[..., Any], job: Job
) -> None:
    """kill -9 of the script: only the folder says that an attempt had begun."""
    (job.folder / "started").write_text("3\n")
    done = clusterjobs("status", job.spec)
    assert done.out.splitlines()[1].split() == ["7", "ended", "2", "no_record"]
    said = f"newest checkpoint if there is one: clusterjobs submit {job.spec}\n"
    assert done.err.startswith("job 7: attempt 3 began and has no record, and Slurm has ended")
    assert done.err.endswith(said)
    assert clusterjobs("logs", job.spec).err == done.err


@pytest.mark.parametrize("state", ["RUNNING", "PENDING", "COMPLETING"])
def test_a_job_in_the_queue_may_yet_record_its_attempt(
    clusterjobs: Callable[..., Any], job: Job, state: str
) -> None:
    (job.folder / "started").write_text("3\n")
    job.in_queue(row("7", state))
    assert attempts(clusterjobs, job) == [(2, "completed", 80)]


def test_without_slurm_nobody_knows_whether_an_attempt_has_ended(
    clusterjobs: Callable[..., Any], job: Job
) -> None:
    (job.folder / "started").write_text("3\n")
    job.squeue.unlink()
    assert attempts(clusterjobs, job) == [(2, "completed", 80)]
    assert "no record" not in clusterjobs("logs", job.spec).err


def test_a_first_attempt_without_a_record_is_known_by_its_plan(
    clusterjobs: Callable[..., Any], job: Job
) -> None:
    """A job without restarts writes down no number."""
    (job.folder / "attempts.jsonl").unlink()
    assert attempts(clusterjobs, job) == [(1, "no_record", None)]


def test_a_duration_is_never_negative(clusterjobs: Callable[..., Any], job: Job) -> None:
    """Older jobs recorded what bash said after the clock was set back."""
    (job.folder / "attempts.jsonl").write_text(RECORD.replace("80", "-86320"))
    assert attempts(clusterjobs, job) == [(2, "completed", None)]


HUGE: dict[str, Callable[[Any], object]] = {
    "a million lines": lambda file: file.writelines(RECORD for _ in range(1_000_000)),
    "two lines of 50 MB": lambda file: file.writelines(["x" * 50_000_000 + "\n"] * 2),
    "100 MB without a line": lambda file: file.truncate(100_000_000),
}


@pytest.mark.parametrize("how", HUGE)
def test_huge_records_are_read_from_their_end(
    clusterjobs: Callable[..., Any], job: Job, how: str
) -> None:
    names = {"attempts.jsonl": RECORD, "data.jsonl": '{"what": "books"}\n'}
    for name, last in names.items():
        with (job.folder / name).open("w") as file:
            HUGE[how](file)
            file.seek(0, os.SEEK_END)
            file.write(f"\n{last}")
    tracemalloc.start()
    done = clusterjobs("status", job.spec, "7")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60_000_000
    assert "completed, exit code 0" in done.out
    assert "books" in done.out
    for name in names:
        said = f"{job.folder}/{name} is very large: only its last 1 MiB was read\n"
        assert said in done.err


def test_a_large_log_is_printed_in_parts(clusterjobs: Callable[..., Any], job: Job) -> None:
    lines = [f"step {number}: é\n" for number in range(1_000_000)]
    (job.folder / "job.log").write_text("".join(lines))
    assert clusterjobs("logs", job.spec).out == "".join(lines)
    log = GrowingFile(job.folder / "job.log")
    assert max(map(len, log.new_parts())) <= 1 << 22


def test_a_deeply_nested_line_is_no_record(clusterjobs: Callable[..., Any], job: Job) -> None:
    (job.folder / "attempts.jsonl").write_text("[" * 500_000 + "\n" + RECORD)
    assert attempts(clusterjobs, job) == [(2, "completed", 80)]


def test_a_huge_plan_is_damaged(clusterjobs: Callable[..., Any], job: Job) -> None:
    plan = job.folder / "plan.json"
    plan.write_text(" " * 2_000_000 + plan.read_text())
    assert json.loads(clusterjobs("status", job.spec, "--json").out)["jobs"] == []
