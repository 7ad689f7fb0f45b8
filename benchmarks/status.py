"""status of 1,000 tasks: whole processes, against a program that only reads the same files."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.timing import Row, medians_in_turns, process_seconds, processor_seconds
from clusterjobs.runs.spec_files import SpecFiles

TITLE = "status of 1,000 tasks: whole processes"
RUNS = 15
_TASKS = 1000
_MAX_SECONDS = 1.0
_LOG = "".join(f"step {number}/2000 loss={number}.5 and some more text\n" for number in range(2000))
_SPEC = """\
name: tiny
cluster: small
framework: command
command: ["true"]
args: {{lr: 0}}
logs: {logs}
"""

# Reads the same files with the same Python, and derives nothing.
_FLOOR = """
import json, pathlib, subprocess, sys
subprocess.run(["squeue", "--format=%A"], check=True, capture_output=True)
for plan in pathlib.Path(sys.argv[1]).glob(sys.argv[2]):
    json.loads(plan.read_text())
    records = plan.with_name("attempts.jsonl")
    if records.exists():
        [json.loads(line) for line in records.read_text().splitlines()]
    with open(plan.with_name("job.log"), "rb") as log:
        log.seek(-65536, 2)
        log.read().decode()
"""
_SQUEUE = """\
#!{python} -IS
import sys
asked = next(one for one in sys.argv if one.startswith("--format=")).partition("=")[2]
for job_id in range(2700, 3000):
    cells = {{"%A": str(job_id), "%F": str(job_id), "%T": "RUNNING", "%U": "{user}", "%j": "tiny"}}
    row = asked
    for column in ("%A", "%T", "%r", "%L", "%N", "%U", "%j", "%F", "%K", "%k", "%S", "%V", "%E",
                   "%l", "%P", "%Z"):
        row = row.replace(column, cells.get(column, "N/A"))
    print(row)
"""


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        squeue = folder / "bin" / "squeue"
        squeue.parent.mkdir()
        squeue.write_text(_SQUEUE.format(python=sys.executable, user=os.getuid()))
        squeue.chmod(0o755)
        _write_jobs(folder)
        _write_sweep(folder)
        found = medians_in_turns(_measured(folder), RUNS)
    return [
        _row("1,000 jobs of one spec / reading their files", found, "jobs"),
        _row("the same, in CPU time", found, "jobs, CPU"),
        _row("a sweep of 1,000 points / reading their files", found, "line"),
        _row("the same, in CPU time", found, "line, CPU"),
        _row("the same with --points / reading their files", found, "points"),
        _row("the same, in CPU time", found, "points, CPU"),
    ]


def _measured(folder: Path) -> dict[str, Callable[[], float]]:
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(folder),
        "PYTHONPYCACHEPREFIX": str(folder / "byte-code"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    program = [sys.executable, str(Path(sys.executable).with_name("clusterjobs")), "status"]
    floor = [sys.executable, "-c", _FLOOR]
    commands = {
        "jobs": [*program, "exp.yaml"],
        "line": [*program, "sweep.yaml"],
        "points": [*program, "sweep.yaml", "--points"],
        "floor of jobs": [*floor, str(folder / "logs"), "*/plan.json"],
        "floor of line": [*floor, str(folder / "logs" / "lr"), "*/*/plan.json"],
    }
    commands["floor of points"] = commands["floor of line"]
    measured = {}
    for name, command in commands.items():
        measured[name] = partial(process_seconds, command, environment, folder)
        measured[f"{name}, CPU"] = partial(processor_seconds, command, environment, folder)
    return measured


def _row(what: str, found: dict[str, float], name: str) -> Row:
    """The target is in wall-clock time."""
    seconds, floor = found[name], found[f"floor of {name}"]
    if name.endswith("CPU"):
        return Row(what, "ms", floor * 1000, seconds * 1000)
    target = f"<= {_MAX_SECONDS:g} s"
    return Row(what, "ms", floor * 1000, seconds * 1000, target, seconds <= _MAX_SECONDS)


# ------------------------------------------------------------------ the folders of jobs


def _write_jobs(folder: Path) -> None:
    (folder / "exp.yaml").write_text(_SPEC.format(logs=folder / "logs"))
    for number in range(_TASKS):
        _write_job(folder / "logs" / str(2000 + number), number, "exp.yaml", {})


def _write_sweep(folder: Path) -> None:
    values = ", ".join(f"{number}.5" for number in range(_TASKS))
    spec = folder / "sweep.yaml"
    keys = f"sweep: {{name: lr, grid: {{args.lr: [{values}]}}}}\n"
    spec.write_text(_SPEC.format(logs=folder / "logs") + keys)
    points = [one.point for one in SpecFiles(spec).load_points() if one.point]
    for point in points:
        place = folder / "logs" / "lr" / point.name / str(2000 + point.index)
        _write_job(place, point.index, "sweep.yaml", {"name": point.name, "index": point.index})
    record = {"token": "a1", "job_id": 1000, "user": "ann", "time": 1, "spec": "sweep.yaml"}
    tasks = {str(point.index): point.name for point in points}
    submissions = folder / "logs" / "lr" / "submissions.jsonl"
    submissions.write_text(json.dumps({**record, "array": True, "points": tasks}) + "\n")


def _write_job(folder: Path, number: int, spec: str, point: dict[str, object]) -> None:
    """Of the jobs, half have completed, 200 were cancelled and 300 run."""
    folder.mkdir(parents=True)
    derived = {f"value-{index}": "a derived value" for index in range(40)}
    plan = {"name": "tiny", "spec": {"file": spec, "set": []}, "derived": derived, "point": point}
    (folder / "plan.json").write_text(json.dumps({**plan, "framework": "command"}))
    (folder / "job.log").write_text(_LOG)
    if number < 700:
        reason = "completed" if number < 500 else "cancelled"
        record = {"attempt": 1, "reason": reason, "exit_code": 0, "seconds": 5, "ended": 9}
        (folder / "attempts.jsonl").write_text(json.dumps(record) + "\n")
