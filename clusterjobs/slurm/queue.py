"""What Slurm knows of jobs now: squeue and scancel."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from clusterjobs.errors import InputError, Problem, one_problem


@dataclass(frozen=True)
class Queued:
    """A job that has not ended. `state` and `reason` in Slurm's words."""

    state: str
    reason: str
    time_left: str
    nodes: str


def queued_jobs() -> dict[str, Queued] | None:
    """The jobs that have not ended, by id (an array's tasks by their own); None without Slurm."""
    rows = _squeue("%A|%T|%r|%L|%N", fields=5)
    return None if rows is None else {row[0]: Queued(*row[1:]) for row in rows}


def cancel(job_ids: Sequence[str]) -> frozenset[str]:
    """scancel; those of the ids at which a whole array has ended.

    An array's id is also that of one of its tasks, and then means all of them; 123_4 is a task.
    Raises InputError for a job that is not in the queue, or with scancel's words.
    """
    rows = _squeue("%A|%F|%i", fields=3)
    if rows is None:
        raise one_problem("there is no scancel here", hint="run it on the head node")
    known = {name for row in rows for name in row}
    if missing := [job_id for job_id in job_ids if job_id not in known]:
        raise InputError(Problem(f"no job {job_id} is in the queue") for job_id in missing)
    done = subprocess.run(
        ["scancel", "--", *job_ids], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise _refused("scancel", done.stderr)
    arrays = {array for _, array, shown in rows if shown != array}
    return frozenset(arrays.intersection(job_ids))


def _squeue(columns: str, fields: int) -> list[list[str]] | None:
    """squeue's rows, one for each task of an array; None without Slurm."""
    asked = ["squeue", "--noheader", "--array", f"--format={columns}"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return None
    if done.returncode:
        raise _refused("squeue", done.stderr)
    rows = (line.split("|", fields - 1) for line in done.stdout.splitlines())
    return [row for row in rows if len(row) == fields]


def _refused(program: str, said: str) -> InputError:
    lines = said.strip().splitlines() or ["it failed without a word"]
    return InputError(Problem(f"{program}: {line}") for line in lines)
