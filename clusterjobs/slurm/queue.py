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
    asked = ["squeue", "--noheader", "--array", "--format=%A|%T|%r|%L|%N"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return None
    if done.returncode:
        raise _refused("squeue", done.stderr)
    rows = (line.split("|", 4) for line in done.stdout.splitlines())
    return {row[0]: Queued(*row[1:]) for row in rows if len(row) == 5}


def cancel(job_ids: Sequence[str]) -> None:
    """scancel. Raises InputError for a job that is not in the queue, or with scancel's words."""
    queued = queued_jobs()
    if queued is None:
        raise one_problem("there is no scancel here", hint="run it on the head node")
    if missing := [job_id for job_id in job_ids if job_id not in queued]:
        raise InputError(Problem(f"no job {job_id} is in the queue") for job_id in missing)
    done = subprocess.run(
        ["scancel", "--", *job_ids], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise _refused("scancel", done.stderr)


def _refused(program: str, said: str) -> InputError:
    lines = said.strip().splitlines() or ["it failed without a word"]
    return InputError(Problem(f"{program}: {line}") for line in lines)
