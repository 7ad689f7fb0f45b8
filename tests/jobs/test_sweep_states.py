"""The states of a sweep's points, from folders, submissions and the queue; no Slurm is needed."""

from __future__ import annotations

import json
import os
import pathlib
import time
from dataclasses import replace
from typing import Any

import pytest

from clusterjobs.runs.jobs.folders import (
    SUBMISSIONS,
    Submission,
    append_cancellation,
    append_submission,
    point_folders,
    point_jobs,
    read_submissions,
)
from clusterjobs.runs.jobs.states import PointState, sweep_states
from clusterjobs.slurm.queue import Queued

NAME = "0000-lr=1e-3-aaaaaaaa"
OTHER = "0001-lr=1e-4-bbbbbbbb"
CONTENT = "0123456789abcdef"
SUBMITTED = Submission(
    "t1", 100, "ann", 1000, "exp.yaml", True, {"0": NAME, "1": OTHER}, {NAME: CONTENT}
)
INTENT = replace(SUBMITTED, job_id=None)


def queued_job(state: str = "RUNNING", reason: str = "None", **more: str) -> Queued:
    """A task of the array that was submitted, as Slurm knows it."""
    known = {"array_id": "100", "array_index": "0", "comment": SUBMITTED.comment, **more}
    name = known.pop("name", "tiny")
    return Queued("101", state, reason, "", "", os.getuid(), name, **known)


def job(
    sweep: pathlib.Path, job_id: str, *reasons: str, name: str = NAME, start: float = 2000
) -> pathlib.Path:
    """The folder of a job that has begun, with a record for each attempt that has ended."""
    folder = sweep / name / job_id
    folder.mkdir(parents=True)
    records = [{"attempt": n, "reason": reason} for n, reason in enumerate(reasons, 1)]
    lines = "".join(f"{json.dumps(one)}\n" for one in records)
    (folder / "attempts.jsonl").write_text(lines)
    (folder / "plan.json").write_text(json.dumps({"point": {"content": CONTENT}}))
    os.utime(folder / "plan.json", (start, start))
    return folder


def state_of(sweep: pathlib.Path, *submissions: Submission, **options: Any) -> PointState:
    queued = options.get("queued", {})
    content = options.get("content", CONTENT)
    return sweep_states(sweep, {NAME: content}, submissions, queued)[NAME]


# ------------------------------------------------------------------ states


def test_a_point_without_anything_is_missing(tmp_path: pathlib.Path) -> None:
    assert state_of(tmp_path / "no") == PointState("missing")


@pytest.mark.parametrize(
    ("reasons", "state"),
    [
        (["completed"], ("completed", "")),
        (["time_limit", "completed"], ("completed", "")),
        (["failure"], ("failed", "failure")),
        (["time_limit"], ("failed", "time_limit")),
        (["failure", "cancelled"], ("cancelled", "cancelled")),
        ([], ("lost", "no_record")),
    ],
)
def test_a_point_that_has_ended(
    tmp_path: pathlib.Path, reasons: list[str], state: tuple[str, str]
) -> None:
    folder = job(tmp_path, "101", *reasons)
    found = state_of(tmp_path, SUBMITTED)
    assert (found.state, found.reason) == state
    assert (found.job_id, found.folder) == ("101", folder)


def test_an_attempt_that_began_after_the_last_record_is_lost(tmp_path: pathlib.Path) -> None:
    folder = job(tmp_path, "101", "failure")
    (folder / "started").write_text("2\n")
    assert state_of(tmp_path).state == "lost"


def test_a_completed_point_with_another_content_is_changed(tmp_path: pathlib.Path) -> None:
    job(tmp_path, "101", "completed")
    assert state_of(tmp_path, content="f" * 16).state == "changed"
    assert state_of(tmp_path, content="").state == "completed"


@pytest.mark.parametrize("plan", ["", "[]", '{"point": null}', '{"point": {"con'])
def test_a_completed_point_without_a_readable_plan_is_completed(
    tmp_path: pathlib.Path, plan: str
) -> None:
    (job(tmp_path, "101", "completed") / "plan.json").write_text(plan)
    assert state_of(tmp_path).state == "completed"


@pytest.mark.parametrize(
    ("slurm", "state"),
    [
        *((one, "running") for one in ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED")),
        *((one, "pending") for one in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")),
    ],
)
def test_a_point_in_the_queue(tmp_path: pathlib.Path, slurm: str, state: str) -> None:
    job(tmp_path, "101", "failure")
    found = state_of(tmp_path, SUBMITTED, queued={"101": queued_job(slurm)})
    assert (found.state, found.job_id) == (state, "101")


def test_only_its_own_task_of_the_array_counts(tmp_path: pathlib.Path) -> None:
    queued = {"101": queued_job(array_index="1")}
    found = sweep_states(tmp_path, {NAME: "", OTHER: ""}, [SUBMITTED], queued)
    assert [one.state for one in found.values()] == ["lost", "running"]


def test_pending_tasks_are_known_before_they_have_ids_of_their_own(tmp_path: pathlib.Path) -> None:
    queued = {f"100_{n}": queued_job("PENDING", "Resources", array_index=str(n)) for n in range(2)}
    found = sweep_states(tmp_path, {NAME: "", OTHER: ""}, [SUBMITTED], queued)
    assert [(one.state, one.job_id) for one in found.values()] == [
        ("pending", "100_0"),
        ("pending", "100_1"),
    ]


def test_a_single_job_and_a_packed_one(tmp_path: pathlib.Path) -> None:
    single = replace(SUBMITTED, array=False, points={"": NAME})
    packed = replace(SUBMITTED, points={"0.0": NAME, "0.1": OTHER})
    queued = {"100": queued_job(array_id="100", array_index="")}
    assert state_of(tmp_path, single, queued=queued).state == "running"
    found = sweep_states(tmp_path, {NAME: "", OTHER: ""}, [packed], {"101": queued_job()})
    assert [one.state for one in found.values()] == ["running", "running"]


def test_a_point_of_a_packed_job_may_end_before_it(tmp_path: pathlib.Path) -> None:
    job(tmp_path, "101", "failure")
    job(tmp_path, "101", "completed", name=OTHER)
    packed = replace(SUBMITTED, points={"0.0": NAME, "0.1": OTHER})
    for slurm, first in (("RUNNING", "failed"), ("PENDING", "pending")):
        found = sweep_states(tmp_path, {NAME: "", OTHER: ""}, [packed], {"101": queued_job(slurm)})
        assert [one.state for one in found.values()] == [first, "completed"]
        assert all(one.in_queue for one in found.values())


def test_a_job_whose_id_was_not_recorded_is_found_by_its_comment(tmp_path: pathlib.Path) -> None:
    queued = {"101": queued_job(array_id="100", comment=f"of ann {INTENT.comment}")}
    assert state_of(tmp_path, INTENT, queued=queued).state == "running"
    assert state_of(tmp_path, INTENT).state == "missing"
    other = {"101": queued_job(comment="clusterjobs:other")}
    assert state_of(tmp_path, INTENT, queued=other).state == "missing"


def test_a_job_that_sbatch_was_given_by_hand_is_known_once_it_has_a_folder(
    tmp_path: pathlib.Path,
) -> None:
    job(tmp_path, "101", start=time.mktime((2026, 11, 24, 9, 0, 0, 0, 0, -1)))
    queued = {"101": queued_job(comment="", start="2026-11-24T09:01:00")}
    assert state_of(tmp_path, queued=queued).state == "running"


def test_a_point_that_never_started_is_lost(tmp_path: pathlib.Path) -> None:
    found = state_of(tmp_path, SUBMITTED)
    said = "its job ended before it started"
    assert (found.state, found.reason, found.job_id) == ("lost", said, "100")


def test_a_point_that_was_cancelled_before_it_started_is_cancelled_while_slurm_knows_it(
    tmp_path: pathlib.Path,
) -> None:
    def found(ended: Queued, *submissions: Submission) -> tuple[str, str]:
        points = {NAME: CONTENT}
        state = sweep_states(tmp_path, points, submissions, {}, {"100": ended})[NAME]
        return state.state, state.reason

    lost = ("lost", "its job ended before it started")
    assert found(queued_job("CANCELLED"), SUBMITTED) == ("cancelled", "before it started")
    assert found(queued_job("FAILED"), SUBMITTED) == lost
    assert found(queued_job("CANCELLED", array_index="1"), SUBMITTED) == lost
    later = replace(SUBMITTED, token="t2", job_id=200)
    assert found(queued_job("CANCELLED"), SUBMITTED, later) == lost


def test_an_earlier_job_says_nothing_of_a_later_submission(tmp_path: pathlib.Path) -> None:
    job(tmp_path, "50", "failure", start=500)
    found = state_of(tmp_path, SUBMITTED)
    assert (found.state, found.job_id, found.folder) == ("lost", "100", None)


def test_a_new_cluster_counts_its_jobs_from_1(tmp_path: pathlib.Path) -> None:
    job(tmp_path, "5000", "failure", start=500)
    job(tmp_path, "12", "completed", start=5000)
    again = replace(SUBMITTED, job_id=12, time=4000)
    assert state_of(tmp_path, replace(SUBMITTED, job_id=5000), again).state == "completed"


def test_without_slurm_what_has_no_record_is_unknown(tmp_path: pathlib.Path) -> None:
    assert state_of(tmp_path, SUBMITTED, queued=None).state == "unknown"
    job(tmp_path, "101")
    assert state_of(tmp_path, SUBMITTED, queued=None).state == "unknown"
    job(tmp_path, "102", "completed", start=3000)
    assert state_of(tmp_path, SUBMITTED, queued=None).state == "completed"


# ------------------------------------------------------------------ folders


def test_a_point_keeps_its_folder_when_its_index_moves(tmp_path: pathlib.Path) -> None:
    job(tmp_path, "101", "failure")
    moved = NAME.replace("0000", "0007")
    job(tmp_path, "102", "completed", name=moved, start=3000)
    assert sweep_states(tmp_path, {moved: CONTENT}, [SUBMITTED], {})[moved].state == "completed"
    (folders,) = point_folders(tmp_path).values()
    assert [one.name for one in point_jobs(folders)] == ["101", "102"]


def test_what_others_have_planted_is_not_followed(tmp_path: pathlib.Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    job(elsewhere, "101", "completed")
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / NAME).symlink_to(elsewhere / NAME)
    (sweep / "points.csv").write_text("")
    assert state_of(sweep).state == "missing"
    (sweep / NAME).unlink()
    folder = job(sweep, "102")
    (sweep / NAME / "103").symlink_to(elsewhere / NAME / "101")
    (folder / "attempts.jsonl").unlink()
    os.mkfifo(folder / "attempts.jsonl")
    assert state_of(sweep).state == "lost"


def test_all_of_1000_points_are_found(tmp_path: pathlib.Path) -> None:
    names = [f"{n:04}-lr={n}-{n:08x}" for n in range(1000)]
    for name in names:
        job(tmp_path, "101", "completed", name=name)
    tasks = {str(n): name for n, name in enumerate(names)}
    found = sweep_states(
        tmp_path, dict.fromkeys(names, CONTENT), [replace(SUBMITTED, points=tasks)], {}
    )
    assert {one.state for one in found.values()} == {"completed"}


# ------------------------------------------------------------------ submissions.jsonl


def write(folder: pathlib.Path, *submissions: Submission) -> None:
    with (folder / SUBMISSIONS).open("a+b") as file:
        for one in submissions:
            append_submission(file, one)


def test_a_later_line_replaces_the_intent(tmp_path: pathlib.Path) -> None:
    other = replace(INTENT, token="t2")
    write(tmp_path, INTENT, other, SUBMITTED)
    assert read_submissions(tmp_path) == (SUBMITTED, other)


def test_damaged_lines_are_left_out(tmp_path: pathlib.Path) -> None:
    write(tmp_path, INTENT)
    whole = json.loads((tmp_path / SUBMISSIONS).read_text())
    broken = [
        *("", "null", "[]", "[" * 9999, '{"token": "t9"}', "\0", "\xff"),
        *(json.dumps({**whole, key: value}) for key, value in (("token", "a b"), ("points", [1]))),
        *(json.dumps({**whole, "job_id": value}) for value in ("x", float("inf"))),
    ]
    with (tmp_path / SUBMISSIONS).open("ab") as file:
        file.write("\n".join(broken).encode("latin-1", "replace") + b'\n{"token": "t3", "job')
    write(tmp_path, SUBMITTED)  # after a truncated line
    assert read_submissions(tmp_path) == (SUBMITTED,)


def test_a_planted_pipe_is_not_read(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / SUBMISSIONS)
    assert read_submissions(tmp_path) == ()
    assert read_submissions(tmp_path / "nosuch") == ()


def at(seconds: float) -> str:
    """A time as squeue prints it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"comment": "", "start": at(1990)}, "running"),  # the job that has made the folder
        ({"comment": "", "start": at(90_000)}, "failed"),  # the folder is older than this job
        ({"comment": "clusterjobs:other", "start": at(90_000)}, "failed"),
        ({"comment": "", "state": "PENDING", "name": "other"}, "failed"),
        ({"comment": "", "state": "PENDING"}, "pending"),  # of plain sbatch, for its next attempt
        ({"comment": "clusterjobs:other", "state": "PENDING"}, "failed"),
    ],
)
def test_the_id_of_an_old_folder_is_not_enough(
    tmp_path: pathlib.Path, more: dict[str, str], state: str
) -> None:
    folder = job(tmp_path, "101", "failure")
    (folder / "plan.json").write_text(json.dumps({"name": "tiny"}))
    os.utime(folder / "plan.json", (2000, 2000))
    found = state_of(tmp_path, queued={"101": queued_job(**{"array_id": "900", **more})})
    assert (found.state, found.in_queue) == (state, state != "failed")


def test_another_user_has_not_made_the_folder(tmp_path: pathlib.Path) -> None:
    job(tmp_path, "101", "failure")
    foreign = replace(queued_job(comment="", start=at(1990)), user_id=os.getuid() + 1)
    assert state_of(tmp_path, queued={"101": foreign}).state == "failed"


@pytest.mark.parametrize(
    ("slurm", "state", "reason"),
    [
        ("CANCELLED", "cancelled", "cancelled"),
        ("TIMEOUT", "failed", "time_limit"),
        ("NODE_FAIL", "failed", "node_failure"),
        ("OUT_OF_MEMORY", "failed", "out of memory"),
        ("FAILED", "lost", "no_record"),
    ],
)
def test_what_slurm_still_knows_of_a_job_without_a_record(
    tmp_path: pathlib.Path, slurm: str, state: str, reason: str
) -> None:
    job(tmp_path, "101")
    found = sweep_states(tmp_path, {NAME: ""}, [SUBMITTED], {}, {"101": queued_job(slurm)})[NAME]
    assert (found.state, found.reason) == (state, reason)


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_cancellation_is_recorded_for_its_tasks(tmp_path: pathlib.Path, has_folder: bool) -> None:
    if has_folder:
        job(tmp_path, "101")
    with (tmp_path / SUBMISSIONS).open("a+b") as file:
        append_submission(file, SUBMITTED)
        append_cancellation(file, {SUBMITTED.token: ["0", "1"]}, True)
        append_cancellation(file, {SUBMITTED.token: ["1"]}, False)  # scancel refused it
    found = sweep_states(tmp_path, {NAME: "", OTHER: ""}, read_submissions(tmp_path), {})
    said = "cancelled" if has_folder else "before it started"
    assert [(one.state, one.reason) for one in found.values()] == [
        ("cancelled", said),
        ("lost", "its job ended before it started"),
    ]


def test_a_point_that_completed_before_its_cancellation_is_completed(
    tmp_path: pathlib.Path,
) -> None:
    job(tmp_path, "101", "completed")
    cancelled = replace(SUBMITTED, cancelled=frozenset({"0"}))
    assert state_of(tmp_path, cancelled).state == "completed"
