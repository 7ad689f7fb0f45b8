"""Trainings of the lab that record their own steps, to check a report against.

The logs in tests/report/logs are such trainings': `KEEP_LOGS=FOLDER pytest tests/jobs/test_...`
writes a log and its record there, to be looked at and committed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import re
from importlib import metadata
from typing import Any

from own_numbers import Kind, check_windows, repeated_steps
from own_record import collect
from rendered_jobs import Jobs

from clusterjobs.cli import main

# Folders of this machine, in a log that is kept.
_FOLDERS = (
    (rb"/[^\s:\"'()]*/site-packages/", b"/venv/site-packages/"),
    (rb"/[^\s:\"'()]*/frameworks-\w+/", b"/venv/site-packages/"),
    (rb"/[^\s:\"'()]*/bin/python", b"/venv/bin/python"),
    (rb"/[^\s:\"'()]*/tests/jobs/", b"/home/user/tests/jobs/"),
    (rb"/[^\s:\"'()]*/pytest-\d+/", b"/home/user/"),
)


def recorded(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec of a training that uses own_record.py, with the folder for its record."""
    return {**spec, "env": {**spec.get("env", {}), "OWN_RECORD": f"/fsx/own/{spec['name']}"}}


def own_steps(jobs: Jobs, name: str, job_id: str, *packages: str, printer: int = 0) -> Any:
    """What the training `name` recorded. `printer`: the rank whose lines are in the log."""
    shared = jobs.lab.folder.shared("/fsx")
    steps = collect(shared / "own" / name, printer)
    assert steps, "the training recorded nothing"
    if kept := os.environ.get("KEEP_LOGS"):
        versions = {package: metadata.version(package) for package in packages}
        log = shared / "logs" / job_id / "job.log"
        _keep(pathlib.Path(kept), name, log.read_bytes(), {"versions": versions, "steps": steps})
    return steps


def check_report(
    jobs: Jobs, name: str, job_id: str, kind: Kind, *packages: str, printer: int = 0
) -> None:
    """The report of a job says what its ranks and its script have recorded."""
    steps = own_steps(jobs, name, job_id, *packages, printer=printer)
    folder = jobs.lab.folder.shared("/fsx") / "logs" / job_id
    check_windows((folder / "job.log").read_bytes(), steps, kind)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main.run(["report", str(folder), "--json"]) == 0
    (run,) = json.loads(out.getvalue())["runs"]
    assert run["steps"] == max(row["step"] for row in steps)
    assert run["lost_steps"] == repeated_steps(steps)
    lines = (folder / "attempts.jsonl").read_text().splitlines()
    records = {one["attempt"]: one for one in map(json.loads, lines)}.values()
    shown = [(one["number"], one["reason"], one["seconds"]) for one in run["attempts"]]
    assert shown == [(one["attempt"], one["reason"], one["seconds"]) for one in records]
    assert run["paid_seconds"] == sum(one["seconds"] for one in records)
    # Slurm has said when it queued each attempt; the job's script began after it.
    submitted = [one["submitted"] for one in records]
    assert all(isinstance(one, int) for one in submitted), records
    assert submitted == sorted(submitted)
    assert all(one["submitted"] <= one["ended"] for one in records)
    waits = [one["queue_seconds"] for one in run["attempts"]]
    assert None not in waits
    assert run["lost_seconds"]["queue"] == sum(waits)


def _keep(folder: pathlib.Path, name: str, log: bytes, record: dict[str, Any]) -> None:
    """The record has a line for each step."""
    for pattern, instead in _FOLDERS:
        log = re.sub(pattern, instead, log)
    lines = ",\n".join(f"  {json.dumps(row)}" for row in record["steps"])
    head = json.dumps(record["versions"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.log").write_bytes(log)
    (folder / f"{name}.json").write_text(f'{{"versions": {head}, "steps": [\n{lines}\n]}}\n')
