"""Collects all data of one job: the records in its folder, Slurm's state, its log.

The names are those of `status --json`, stable across versions.
"""

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from clusterjobs.errors import InputError
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.launchers import LAUNCHERS
from clusterjobs.runs.jobs import states as state
from clusterjobs.runs.jobs.folders import read_plan
from clusterjobs.runs.jobs.records import (
    NO_RECORD,
    Attempt,
    Records,
    corrected_by_slurm,
    job_roles,
    read_folder,
    unrecorded_attempts,
)
from clusterjobs.runs.jobs.unstarted import Unstarted
from clusterjobs.runs.status.log_end import (
    MOST,
    first_traceback,
    last_logged_step,
    last_message,
    read_log_end,
)
from clusterjobs.slurm.jobs import in_words
from clusterjobs.slurm.queue import WAITING, Queued, by_id, jobs_if_known

# ------------------------------------------------------------------ queue
# The jobs that Slurm knows, from one call of squeue, as `status` needs them.


class Queue(NamedTuple):
    """`queued`: the jobs that have not ended, by id; None without Slurm. `ended`: those that Slurm
    still remembers. `silence`: why Slurm has not answered, "" if it has, or is not there."""

    queued: Mapping[str, Queued] | None
    ended: tuple[Queued, ...]
    silence: str = ""

    @property
    def known(self) -> tuple[Queued, ...] | None:
        """All jobs; None without Slurm."""
        return None if self.queued is None else (*self.queued.values(), *self.ended)

    @property
    def my_queued(self) -> dict[str, Queued]:
        """This user's jobs that have not ended, by id."""
        jobs = (self.queued or {}).items()
        return {job_id: job for job_id, job in jobs if job.user_id == os.getuid()}

    @property
    def my_ended(self) -> list[Queued]:
        """This user's jobs that have ended, as far as Slurm remembers them."""
        return [job for job in self.ended if job.user_id == os.getuid()]


def ask_queue() -> Queue:
    silence: list[str] = []
    jobs = jobs_if_known(silence.append)
    if jobs is None:
        return Queue(None, (), "".join(silence))
    return Queue(
        by_id(job for job in jobs if not job.has_ended),
        tuple(job for job in jobs if job.has_ended),
    )


JobData = dict[str, Any]


class JobPlace(NamedTuple):
    """The state of a job. `spec`: the file as the user named it, "" if unknown.

    `folder`: None if only Slurm knows the job; then `ended` is what it says after the job's end.
    `patterns`: see `log_patterns`. `newest_checkpoint` looks into the folder of the checkpoints, if
    there is one. `needed_specs`: see `in_words`. `queued`: the job in Slurm's queue, if any.
    `end`: why its last attempt ended, if that left no record and is known from elsewhere.
    """

    job_id: str
    folder: pathlib.Path | None
    spec: str = ""
    name: str = ""
    patterns: tuple[str, ...] = ()
    unstarted: Unstarted | None = None
    newest_checkpoint: Callable[[], str] | None = None
    ended: Queued | None = None
    needed_specs: Mapping[str, str] = {}
    queued: Queued | None = None
    end: str = ""


def job_data(place: JobPlace, queue: Queue) -> JobData:
    """Everything but the traceback, which costs a look at a large part of the log."""
    queued = place.queued
    records = read_folder(place.folder) if place.folder else Records((), (), (), ())
    known = queued or place.ended
    attempts = corrected_by_slurm(records.attempts, known.state if known else "")
    if queue.queued is not None and queued is None and place.folder:
        attempts += unrecorded_attempts(place.folder, attempts, place.end or NO_RECORD)
    log = place.folder and place.folder / "job.log"
    if place.unstarted and not queued:
        log = place.unstarted.output or log
    step = last_logged_step(log, place.patterns) if log else None
    reason = "not_started" if place.unstarted else attempts[-1].reason if attempts else ""
    return {
        "job_id": place.job_id,
        "spec": place.spec,
        "name": place.name,
        "status": _status(queued, place, attempts),
        **_in_slurm(queued, place),
        "attempt": _number(queued, attempts),
        "checkpoint": _checkpoint(queued, attempts, place.newest_checkpoint),
        "step": step and step.step,
        "steps": step and step.steps,
        "log": str(log or ""),
        "folder": str(place.folder or ""),
        "has_folder": place.unstarted is None,
        "attempts": [asdict(one) for one in attempts],
        "data": [asdict(one) for one in records.data],
        "exports": [asdict(one) | {"incomplete": one.is_incomplete} for one in records.exports],
        "roles": job_roles(place.folder) if place.folder else [],
        "cut": records.cut,
        "message": last_message(log, reason) if log and not queued else "",
        "traceback": None,
    }


def add_traceback(job: JobData) -> None:
    """The traceback of the rank that failed first, if the job failed and its log has one."""
    if job["status"] in (state.FAILED, state.LOST):
        plan = read_plan(pathlib.Path(job["folder"], "plan.json"))
        launcher = LAUNCHERS.get(str(plan.get("launcher")))
        found = first_traceback(read_log_end(pathlib.Path(job["log"]), MOST), launcher)
        job["traceback"] = found and {**found._asdict(), "lines": list(found.lines)}


def log_patterns(framework: str) -> tuple[str, ...]:
    """The lines with a step that a framework declares."""
    try:
        lines = FRAMEWORKS[framework].log_lines
    except (KeyError, InputError):  # unknown, or its package cannot be loaded
        return ()
    return tuple(line.pattern for line in lines if "(?P<step>" in line.pattern)


def waiting(queued: Queued) -> bool:
    """Whether it waits for its start, or its next one."""
    return queued.state in WAITING


def _in_slurm(queued: Queued | None, place: JobPlace) -> Mapping[str, str]:
    if queued is None:
        known = (place.ended.state, place.ended.reason) if place.ended else ("", "")
        known = (place.unstarted.state, place.unstarted.why) if place.unstarted else known
        names = ("waits_for", "expected_start", "time_left", "nodes", "partition")
        return {"state": known[0], "state_reason": known[1], **dict.fromkeys(names, "")}
    is_waiting = waiting(queued)
    return {
        "state": queued.state,
        "state_reason": queued.reason,
        "waits_for": in_words(queued.reason, queued.dependency, place.needed_specs)
        if is_waiting
        else "",
        "expected_start": queued.start if is_waiting else "",
        "time_left": queued.time_left,
        "nodes": queued.nodes,
        "partition": queued.partition,
    }


def _status(queued: Queued | None, place: JobPlace, attempts: Sequence[Attempt]) -> str:
    """One of the states that points of sweeps have, too."""
    if queued:
        return state.PENDING if waiting(queued) else state.RUNNING
    if attempts:
        return _OF_REASON.get(attempts[-1].reason, state.FAILED)
    if place.unstarted or place.ended:
        said = place.unstarted.state if place.unstarted else place.ended and place.ended.state
        return _OF_SLURM.get(said or "", state.FAILED)
    return state.UNKNOWN


_OF_REASON = {
    "completed": state.COMPLETED,
    "cancelled": state.CANCELLED,
    NO_RECORD: state.LOST,
}
_OF_SLURM = {"COMPLETED": state.COMPLETED, "CANCELLED": state.CANCELLED}


def _number(queued: Queued | None, attempts: Sequence[Attempt]) -> int:
    """Of the attempt that runs, or of the last one; 0 before the first."""
    is_running = queued is not None and not waiting(queued)
    return (attempts[-1].number if attempts else 0) + is_running


def _checkpoint(
    queued: Queued | None, attempts: Sequence[Attempt], newest: Callable[[], str] | None
) -> str:
    """The newest one: of a running job that of its folder, else that of its last record."""
    if queued and not waiting(queued) and newest and (found := newest()):
        return found
    return attempts[-1].checkpoint if attempts else ""


# ------------------------------------------------------------------ missing record
# The message of `status` and `logs` for an attempt that has no record of its end.


def no_record_note(job_id: str, attempt: int, spec: str) -> str:
    """What may have happened to an attempt without a record, and how to go on."""
    return (
        f"job {job_id}: attempt {attempt} began and has no record, and Slurm has ended the job: "
        "its script was killed (kill -9, or out of memory), its node was lost, or its folder could "
        "not be written. It does not restart by itself. To start it again, from its newest "
        f"checkpoint if there is one: clusterjobs submit {spec}"
    )
