"""status of sweeps: one line, the table of points, a number from their logs, one point's job."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_squeue import row, squeue_calls, write_squeue
from sweep_on_disk import SweepOnDisk

LOG = "step 7/60 loss=3.5\nstep 8/60 loss=2.5\n"
FAILED = "3: Traceback (most recent call last):\n3:   at\n3: ValueError: \x1b[31mnan\n"


@pytest.fixture
def slurm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder on PATH, alone, whose squeue knows two tasks of the array 40."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write_squeue(
        folder,
        row("43", "RUNNING", array="40", index="2", time_left="1:00", nodes="n1"),
        row("40", "PENDING", array="40", index="3", reason="Priority", start="2027-01-02T03:04:05"),
        row("40", "PENDING", array="40", index="4", reason="Priority"),
    )
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def sweep(tmp_path: pathlib.Path, slurm: pathlib.Path) -> SweepOnDisk:
    """Six points: completed, failed, running, two pending, never submitted."""
    made = SweepOnDisk(tmp_path, 6)
    made.submitted("40", range(5))
    made.job(0, "41", "completed", LOG)
    made.job(1, "42", "failure", FAILED)
    made.job(2, "43", "", "step 3/60\n")
    return made


COUNTS = "1 completed, 1 running, 2 pending, 1 failed, 1 missing"


def test_a_sweep_is_one_line(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, slurm: pathlib.Path
) -> None:
    done = clusterjobs("status", sweep.spec)
    said = f"why a point failed: clusterjobs status {sweep.spec} 42\n"
    assert (done.code, done.err) == (0, said)
    assert done.out == f"lr-width: 6 points: {COUNTS}\n"
    assert squeue_calls(slurm) == 1


def test_points_are_a_table(clusterjobs: Callable[..., Any], sweep: SweepOnDisk) -> None:
    done = clusterjobs("status", sweep.spec, "--points", "--metric", r"loss=([0-9.]+)")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()[1:8]] == [
        ["point", "lr", "state", "job", "attempts", "step", "metric", "why"],
        ["0", "0.5", "completed", "41", "1", "8/60", "2.5"],
        ["1", "1.5", "failed", "42", "1", "failure,", "exit", "code", "1"],
        ["2", "2.5", "running", "43", "1", "3/60", "1:00", "left,", "on", "n1"],
        [
            "3",
            "3.5",
            "pending",
            "40_3",
            *PRIORITY,
            *["expected", "to", "start", "2027-01-02", "03:04"],
        ],
        ["4", "4.5", "pending", "40_4", *PRIORITY[:-1], "(Priority)"],
        ["5", "5.5", "missing"],
    ]


START = ["start", "2027-01-02", "03:04"]
PRIORITY = ["waits:", "jobs", "of", "higher", "priority", "go", "first", "(Priority);"]


def test_a_point_that_never_started_again_shows_nothing_of_its_earlier_job(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, slurm: pathlib.Path
) -> None:
    sweep.submitted("50", range(2), time=9_000_000_000)
    write_squeue(slurm, row("50", "CANCELLED", array="50", index="1"))
    done = clusterjobs("status", sweep.spec, "--points")
    lost, cancelled = done.out.splitlines()[2:4]
    assert " ".join(lost.split()) == "0 0.5 lost 50 its job ended before it started"
    assert " ".join(cancelled.split()) == "1 1.5 cancelled 50 before it started"
    assert squeue_calls(slurm) == 1


def test_the_id_of_a_task_is_known_after_its_start_too(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, slurm: pathlib.Path
) -> None:
    for task, own_id in (("40_0", "41"), ("40_2", "43"), ("40_3", "40_3")):
        (job,) = json.loads(clusterjobs("status", sweep.spec, task, "--json").out)["jobs"]
        assert job["job_id"] == own_id
    assert "no job 40_9 is known here" in clusterjobs("status", sweep.spec, "40_9").err
    (job,) = json.loads(clusterjobs("status", sweep.spec, "40_4", "--json").out)["jobs"]
    assert job["name"] == sweep.points[4].name


def test_a_sweep_as_json(clusterjobs: Callable[..., Any], sweep: SweepOnDisk) -> None:
    (data,) = json.loads(clusterjobs("status", sweep.spec, "--json").out)["sweeps"]
    assert data["counts"] == {
        "completed": 1,
        "running": 1,
        "pending": 2,
        "failed": 1,
        "missing": 1,
    }
    assert [one["state"] for one in data["points"]][:3] == ["completed", "failed", "running"]
    assert [one["step"] for one in data["points"]] == [None] * 6
    assert data["points"][1]["values"] == {"args.lr": 1.5}
    asked = clusterjobs("status", sweep.spec, "--json", "--metric", "loss=([0-9.]+)").out
    points = json.loads(asked)["sweeps"][0]["points"]
    assert [one["metric"] for one in points] == ["2.5", "", "", None, None, None]
    assert set(points[0]) == set(data["points"][0])


def test_the_folder_of_a_sweep_is_enough(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    sweep.spec.unlink()
    for folder in (sweep.folder, sweep.folder.parent):
        (data,) = json.loads(clusterjobs("status", folder, "--json").out)["sweeps"]
        assert [one["state"] for one in data["points"]] == [
            *("completed", "failed", "running", "pending", "pending"),
        ]
        assert [one["values"] for one in data["points"]][:2] == [
            {"args.lr": 0.5},
            {"args.lr": 1.5},
        ]


def test_the_job_of_a_point_is_shown_with_its_traceback(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    done = clusterjobs("status", sweep.spec, "42")
    assert done.code == 0
    assert done.out.endswith(
        "job 42, the first traceback of rank 3:\n"
        "  Traceback (most recent call last):\n    at\n  ValueError: nan\n"
    )
    both = clusterjobs("status", sweep.spec, "41", "42").out.splitlines()
    assert [line for line in both if line.startswith("point ")] == [
        f"point {point.name}" for point in sweep.points[:2]
    ]
    missing = clusterjobs("status", sweep.spec, "77")
    assert missing.code == 1
    assert "no job 77 is known here" in missing.err


def test_points_that_the_spec_no_longer_has_are_listed_below_the_others(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    text = sweep.spec.read_text()
    sweep.spec.write_text(text.replace("[0.5, 1.5, 2.5, 3.5, 4.5, 5.5]", "[0.5, 5.5]"))
    done = clusterjobs("status", sweep.spec, "--points")
    line, *_, head = done.out.partition("\n\n")[0].splitlines()[:2]
    former = "4 no longer in the spec: 1 running, 2 pending, 1 failed"
    assert line == f"lr-width: 2 points: 1 completed, 1 missing; {former}"
    title, second_head, *rows = done.out.partition("\n\n")[2].splitlines()
    assert title == "no longer in the spec:"
    assert second_head.split() == head.split()
    assert [line.split()[:4] for line in rows] == [
        [sweep.points[1].name, "1.5", "failed", "42"],
        [sweep.points[2].name, "2.5", "running", "43"],
        [sweep.points[3].name, "pending", "40_3", "waits:"],  # no folder has its values yet
        [sweep.points[4].name, "pending", "40_4", "waits:"],
    ]
    assert "43   RUNNING" in clusterjobs("status", sweep.spec, "43").out
    (data,) = json.loads(clusterjobs("status", sweep.spec, "--json").out)["sweeps"]
    assert data["counts"] == {"completed": 1, "missing": 1}
    assert data["former_counts"] == {"running": 1, "pending": 2, "failed": 1}
    assert [one["in_spec"] for one in data["points"]] == [True, True, *[False] * 4]


def test_a_point_that_was_moved_is_still_in_the_spec(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    text = sweep.spec.read_text()
    sweep.spec.write_text(text.replace("[0.5,", "[9.5, 0.5,"))
    assert clusterjobs("status", sweep.spec).out.startswith(
        "lr-width: 7 points: 1 completed, 1 running, 2 pending, 1 failed, 2 missing\n"
    )


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("loss", "'loss' has 0 groups, not one"),
        ("(l)(o)ss", "has 2 groups, not one"),
        ("loss=(", "is no regular expression"),
    ],
)
def test_a_metric_has_one_group(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, pattern: str, said: str
) -> None:
    done = clusterjobs("status", sweep.spec, "--metric", pattern)
    assert done.code == 2
    assert said in done.err
    assert "--metric 'loss=([0-9.]+)'" in done.err


def test_the_specs_own_metric_is_the_default(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    sweep.spec.write_text(f"{sweep.spec.read_text()}  metric: 'loss=([0-9.]+)'\n")
    assert " 2.5" in clusterjobs("status", sweep.spec, "--points").out.splitlines()[2]


def test_a_thousand_tasks_need_one_call_of_squeue(
    clusterjobs: Callable[..., Any], tmp_path: pathlib.Path, slurm: pathlib.Path
) -> None:
    made = SweepOnDisk(tmp_path, 1000)
    made.submitted("1000", range(1000))
    for index in range(300):
        made.job(index, str(2000 + index), "completed")
    write_squeue(
        slurm,
        *(row("1000", "PENDING", array="1000", index=str(index)) for index in range(300, 1000)),
    )
    done = clusterjobs("status", made.spec)
    assert done.out.startswith("lr-width: 1,000 points: 300 completed, 700 pending\n")
    assert squeue_calls(slurm) == 1
    calls = (slurm / "squeue-calls").read_text()
    assert "--array" in calls
