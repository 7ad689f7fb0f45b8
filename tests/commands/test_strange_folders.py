"""status and results over folders in which other users, or a full disk, have left anything."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_squeue import row, write_squeue
from sweep_on_disk import SweepOnDisk

STRANGE = {
    "nothing": "",
    "truncated": '{"name": "tiny", "spec": {"fi',
    "a list": "[1, 2]",
    "other types": json.dumps(
        {"name": [1], "spec": [], "framework": {"a": 1}, "point": [], "sweep": 5}
    ),
    "point of other types": json.dumps({"point": {"values": {"a": [1, {"b": None}], "": True}}}),
    "control characters": json.dumps({"name": "\x1b]0;\x07", "framework": "\ud800"}),
    "deep": "[" * 100_000,
}


@pytest.fixture
def sweep(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> SweepOnDisk:
    (tmp_path / "bin").mkdir()
    write_squeue(tmp_path / "bin", row("43", "RUNNING", array="40", index="1"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    made = SweepOnDisk(tmp_path, 2)
    made.submitted("40", range(2))
    return made


@pytest.mark.parametrize("what", STRANGE)
def test_anything_in_place_of_a_record_ends_nothing(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, what: str
) -> None:
    job = sweep.job(0, "41", "completed")
    running = sweep.job(1, "43")
    plain = sweep.folder.parent / "50"
    plain.mkdir()
    for folder in (job, running, plain):
        for name in ("plan.json", "attempts.jsonl", "data.jsonl", "job.log", "result.json"):
            (folder / name).write_text(STRANGE[what])
    with (sweep.folder / "submissions.jsonl").open("a") as file:
        file.write(STRANGE[what])
    for words in (
        ["status", sweep.spec, "--points"],
        ["status", sweep.folder, "--points"],
        ["status", sweep.folder.parent],
        ["status", sweep.spec, "43"],
        ["results", sweep.spec],
        ["results", sweep.folder],
    ):
        for options in ([], ["--json"]):
            done = clusterjobs(*words, *options)
            assert done.code == 0, (words, done.err)
            assert all(one.isprintable() or one == "\n" for one in done.out)


def test_names_of_submissions_lead_to_no_other_folder(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, tmp_path: pathlib.Path
) -> None:
    outside = tmp_path / "outside-1a2b3c4d" / "7"
    outside.mkdir(parents=True)
    (outside / "result.json").write_text('{"loss": 1}')
    (outside / "attempts.jsonl").write_text('{"attempt": 1, "reason": "completed"}\n')
    name = "../../outside-1a2b3c4d"
    record = {"token": "x", "job_id": 60, "user": "eve", "time": 1, "spec": "", "array": True}
    with (sweep.folder / "submissions.jsonl").open("a") as file:
        file.write(json.dumps({**record, "points": {"0": name, "1": "0001-a-00000000"}}) + "\n")
    points = json.loads(clusterjobs("results", sweep.folder, "--json").out)["points"]
    (found,) = (point for point in points if point["name"] == name)
    assert (found["result"], found["folder"], found["state"]) == ({}, "", "lost")
