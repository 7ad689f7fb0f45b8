"""Why a job that waited for others never started, by the records of those."""

from __future__ import annotations

import json
import pathlib
from dataclasses import asdict

import pytest

from clusterjobs.runs.jobs.folders import NeededJob, Submission, append_submission, read_submissions
from clusterjobs.runs.jobs.states import plain_state, sweep_states
from clusterjobs.runs.jobs.unstarted import why_never_started


def end(folder: pathlib.Path, reason: str) -> None:
    folder.mkdir(parents=True)
    (folder / "attempts.jsonl").write_text(json.dumps({"attempt": 1, "reason": reason}) + "\n")


@pytest.mark.parametrize(
    ("on", "reason", "why"),
    [
        ("success", "failure", "needs a.yaml (job 7), which failed"),
        ("each", "cancelled", "needs a.yaml (job 7), which was cancelled"),
        ("success", "time_limit", "needs a.yaml (job 7), which reached its time limit"),
        ("success", "node_failure", "needs a.yaml (job 7), which lost a node"),
        ("success", "completed", ""),
        ("failure", "completed", "needs a.yaml (job 7), which completed"),
        ("failure", "failure", ""),
        ("end", "failure", ""),
        ("start", "failure", ""),
    ],
)
def test_the_reason_is_that_of_the_last_attempt(
    tmp_path: pathlib.Path, on: str, reason: str, why: str
) -> None:
    end(tmp_path / "7", reason)
    assert why_never_started([NeededJob("a.yaml", "7", on, str(tmp_path))]) == why


def test_a_job_without_a_record_is_known_by_slurm_or_never_started(tmp_path: pathlib.Path) -> None:
    need = NeededJob("a.yaml", "7", "success", str(tmp_path))
    assert why_never_started([need]) == "needs a.yaml (job 7), which never started"
    assert why_never_started([need], {"7": "COMPLETED"}) == ""
    assert why_never_started([need], {"7": "TIMEOUT"}) == "needs a.yaml (job 7), which failed"
    foreign = NeededJob("", "7", "success", str(tmp_path))
    assert why_never_started([foreign]) == "needs job 7, which did not end as needed"
    assert why_never_started([foreign, need]).count("; ") == 1


def submission(**changes: object) -> Submission:
    values: dict[str, object] = {
        "token": "aa",
        "job_id": 9,
        "user": "ann",
        "time": 5,
        "spec": "train.yaml",
        "array": True,
        "points": {"0": "0000-a=1-aaaaaaaa", "1": "0001-a=2-bbbbbbbb"},
    }
    return Submission(**{**values, **changes})  # type: ignore[arg-type]


def test_points_that_failed_are_counted(tmp_path: pathlib.Path) -> None:
    with (tmp_path / "submissions.jsonl").open("a+b") as file:
        append_submission(file, submission())
    end(tmp_path / "0000-a=1-aaaaaaaa" / "9", "completed")
    need = NeededJob("train.yaml", "9", "success", str(tmp_path))
    why = "needs train.yaml (job 9), of which 1 of 2 points did not complete"
    assert why_never_started([need]) == why
    end(tmp_path / "0001-a=2-bbbbbbbb" / "10", "failure")
    assert why_never_started([need]) == why
    end(tmp_path / "0001-a=2-bbbbbbbb" / "11", "completed")
    assert why_never_started([need]) == ""


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("null", ()),
        ('"text"', ()),
        ("[7, null, []]", ()),
        ('[{"job_id": 7, "later": []}]', (NeededJob("", "7", ""),)),
    ],
)
def test_damaged_needs_do_not_hide_a_job(
    tmp_path: pathlib.Path, written: str, read: tuple[NeededJob, ...]
) -> None:
    record = {**asdict(submission()), "needs": "?"}
    del record["cancelled"]
    line = json.dumps(record).replace('"?"', written)
    (tmp_path / "submissions.jsonl").write_text(f"{line}\n")
    (found,) = read_submissions(tmp_path)
    assert (found.job_id, found.needs) == (9, read)


def test_a_point_and_a_job_that_never_started_are_cancelled_with_the_reason(
    tmp_path: pathlib.Path,
) -> None:
    end(tmp_path / "7", "failure")
    one = submission(needs=(NeededJob("a.yaml", "7", "success", str(tmp_path)),))
    with (tmp_path / "submissions.jsonl").open("a+b") as file:
        append_submission(file, one)
    assert read_submissions(tmp_path) == (one,)
    states = sweep_states(tmp_path, dict.fromkeys(one.points.values(), ""), [one], {})
    expected = ("cancelled", "needs a.yaml (job 7), which failed", "9")
    assert {(s.state, s.reason, s.job_id) for s in states.values()} == {expected}
    state = plain_state([], [one], {}, "")
    assert (state.state, state.reason, state.job_id) == expected
    assert plain_state([], [submission()], {}, "").state == "lost"
