"""The jobs that are in Slurm's queue: squeue and scancel."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from clusterjobs.errors import InputError, Problem, one_problem


@dataclass(frozen=True)
class Queued:
    """A job that has not ended. `state` and `reason` as Slurm prints them."""

    state: str
    reason: str
    time_left: str
    nodes: str
    user_id: int
    name: str


def queued_jobs() -> dict[str, Queued] | None:
    """The jobs that have not ended, by id (an array's tasks by their own); None without Slurm."""
    rows = _squeue("%A|%T|%r|%L|%N|%U|%j", fields=7)
    if rows is None:
        return None
    return {row[0]: Queued(row[1], row[2], row[3], row[4], int(row[5]), row[6]) for row in rows}


def ended_jobs(name: str) -> dict[str, str]:
    """This user's jobs of that name that have ended, for as long as Slurm knows them: id -> state.

    By default that is 5 minutes (MinJobAge).
    """
    rows = _squeue("%A|%T|%j", 3, "--me", "--states=all", f"--name={name}") or []
    return {row[0]: row[1] for row in rows if row[1] in ENDED and row[2] == name}


# Slurm's final states.
ENDED = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
    )
)


def shown_job(job_id: str) -> str:
    """What `scontrol show job` prints of it on one line; "" if Slurm has forgotten it."""
    asked = ["scontrol", "--oneliner", "show", "job", job_id]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


@dataclass(frozen=True)
class Cancelled:
    """The cancelled ids, those of them that mean a whole array, and the unknown ids."""

    job_ids: tuple[str, ...]
    arrays: frozenset[str]
    unknown: tuple[str, ...]


def cancel(job_ids: Sequence[str]) -> Cancelled:
    """Cancel those that are in the queue.

    The id of an array means all its tasks; 123_4 is one task. Raises InputError with scancel's
    message.
    """
    rows = _squeue("%A|%F|%i", fields=3)
    if rows is None:
        raise one_problem("there is no scancel here", hint="run it on the head node")
    known = {name for row in rows for name in row}
    wanted = dict.fromkeys(job_ids)
    found = tuple(job_id for job_id in wanted if job_id in known)
    unknown = tuple(job_id for job_id in wanted if job_id not in known)
    if found:
        done = subprocess.run(
            ["scancel", "--", *found], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            raise _refused("scancel", done.stderr)
    arrays = {array for _, array, shown in rows if shown != array}
    return Cancelled(found, frozenset(arrays.intersection(found)), unknown)


def _squeue(columns: str, fields: int, *options: str) -> list[list[str]] | None:
    """squeue's rows, one for each task of an array; None without Slurm."""
    asked = ["squeue", "--noheader", "--array", *options, f"--format={columns}"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return None
    if done.returncode:
        raise _refused("squeue", done.stderr)
    rows = (line.split("|", fields - 1) for line in done.stdout.splitlines())
    return [row for row in rows if len(row) == fields]


def _refused(program: str, said: str) -> InputError:
    lines = said.strip().splitlines() or ["it failed without a message"]
    return InputError(Problem(f"{program}: {line}") for line in lines)
