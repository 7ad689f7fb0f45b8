"""Calls sbatch with a record in submissions.jsonl: the intent before, the job's id afterwards.

So a crash in between loses no job, and starts no point twice: the intent's token is in the job's
comment.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from clusterjobs.errors import InputError, one_problem
from clusterjobs.runs.follow.interrupts import postponed_interrupts
from clusterjobs.runs.jobs.folders import NeededJob, Submission, append_submission
from clusterjobs.runs.run import Run
from clusterjobs.runs.submit.lock import user_name
from clusterjobs.sections.plan import Plan
from clusterjobs.text import show

# ------------------------------------------------------------------ submit
# Submits a rendered script with sbatch, without variables of another job.


# Variables that locate Slurm; they do not describe a job.
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
_JOBS_OWN = ("SLURM_", "SLURMD_", "SRUN_", "PMI_", "PMIX_", "OMPI_", "TORCHELASTIC_")
_RANKS_OWN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Submitted:
    """The output of `sbatch --parsable`; no job id after --test-only.

    `notes`: the lines of its stderr.
    """

    job_id: int | None
    cluster: str | None
    notes: tuple[str, ...] = ()


def submit(
    script: str,
    options: Sequence[str],
    environment: Mapping[str, str],
    inherited: Sequence[int] = (),
) -> Submitted:
    """Pass the script's text to sbatch. Raises InputError with sbatch's message.

    The text, not the file: another render may rewrite the file at the same time. `inherited`:
    descriptors that sbatch keeps open, also if this process is killed. Ctrl-C reaches this process
    only: sbatch is not ended before it has said the job's id.
    """
    command = ["sbatch", "--parsable", *options]
    try:
        done = subprocess.run(
            command,
            input=script.encode(),
            env=clean(environment),
            capture_output=True,
            check=False,
            pass_fds=inherited,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise one_problem(
            "there is no sbatch here",
            hint="submit from the cluster's head node, or try the lab: clusterjobs lab up small",
        ) from None
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        raise _refusal(said, done.returncode)
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    job_id, _, cluster = (lines[-1] if lines else "").partition(";")
    notes = tuple(said.strip().splitlines())
    return Submitted(int(job_id) if job_id.isdigit() else None, cluster or None, notes)


def _refusal(said: str, exit_code: int) -> InputError:
    """One problem with all that sbatch said: several lines are still one refused job."""
    lines = [line.removeprefix("sbatch: ").removeprefix("error: ") for line in said.splitlines()]
    text = "; ".join(line.strip() for line in lines if line.strip())
    return one_problem(f"sbatch refused the job: {text or f'exit code {exit_code}'}")


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of a job that this shell may be part of."""
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not (name.startswith(_JOBS_OWN) or name in _RANKS_OWN)
    }


def new_intent(
    spec: str,
    array: bool,
    points: Mapping[str, str],
    content: Mapping[str, str],
    needs: Sequence[NeededJob],
) -> Submission:
    """What is about to be submitted, by this user and now; it has no job id yet."""
    return Submission(
        token=secrets.token_hex(8),
        job_id=None,
        user=user_name(),
        time=int(time.time()),
        spec=spec,
        array=array,
        points=points,
        content=content,
        needs=tuple(needs),
    )


def submit_recorded(
    script: str,
    plan: Plan,
    options: Sequence[str],
    intent: Submission,
    record: BinaryIO,
    say: Callable[[str], None],
) -> Submitted:
    """Write the intent, call sbatch, and write the job's id.

    `options` of sbatch; their comment, or the plan's, is kept. Raises InputError: if the id cannot
    be written, with the id.
    """
    comment = "--comment=" + f"{_comment(plan, options)} {intent.comment}".strip()
    with postponed_interrupts(lambda: say("sbatch is running: stopping after its answer")):
        _append(record, intent)
        inherited = (record.fileno(),)
        job = submit(script, (*options, comment), os.environ, inherited=inherited)
        if job.job_id is not None:
            _append(record, intent.with_job(job.job_id, job.cluster))
    return job


def _comment(plan: Plan, options: Sequence[str]) -> str:
    """The comment of the last option that has one, or of the spec."""
    found = (show(one.value) for one in plan.job.directives if one.name == "comment")
    given = next(found, "")
    words = iter(options)
    for option in words:
        if option == "--comment":
            given = next(words, "")
        elif option.startswith("--comment="):
            given = option.partition("=")[2]
    return given


def _append(file: BinaryIO, submission: Submission) -> None:
    try:
        append_submission(file, submission)
    except OSError as error:
        why = f"{file.name}: {error.strerror}"
        if submission.job_id is None:
            raise one_problem(f"cannot write {why}", hint="nothing more was submitted") from None
        raise one_problem(
            f"job {submission.job_id} was submitted, but its id cannot be written to {why}",
            hint="free some space; while the job is in the queue, it is found by its comment",
        ) from None


# ------------------------------------------------------------------ limits
# The limits of the running Slurm that decide how a sweep is submitted: `scontrol show config`.


class Limits(NamedTuple):
    """`max_array_size`: one more than the largest index of an array. `max_jobs`: in the queue.

    None if unknown. `hides_jobs`: squeue shows users only their own jobs (PrivateData).
    """

    max_array_size: int | None = None
    max_jobs: int | None = None
    hides_jobs: bool = False


def slurm_limits() -> Limits:
    """The limits; unknown if Slurm does not answer: sbatch then reports the problem."""
    try:
        done = subprocess.run(["scontrol", "show", "config"], capture_output=True, check=False)
    except FileNotFoundError:
        return Limits()
    return read_limits(done.stdout.decode(errors="replace"))


def read_limits(text: str) -> Limits:
    """The limits in the output of `scontrol show config`."""
    values = dict(re.findall(r"(?m)^(\w+) *= *(.*?) *$", text))
    private = values.get("PrivateData", "").lower().split(",")
    return Limits(
        _number(values.get("MaxArraySize")),
        _number(values.get("MaxJobCount")),
        "jobs" in private or "all" in private,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


# ------------------------------------------------------------------ slurm arrays
# Fits the arrays of a sweep to the limits of the running Slurm.


def fitted_to_slurm(run: Run) -> Run:
    """The run with arrays that Slurm takes.

    Raises InputError if its points wait each for the same point of another sweep, and are not the
    tasks of their own indexes: Slurm compares tasks (aftercorr), so they would wait for others.
    """
    size = slurm_limits().max_array_size
    fitted = run.fitting(size)
    for number, need in enumerate(run.spec.needs):
        if need.on == "each" and any(
            task.key and task.task != task.point.point.index for _, task in fitted.tasks
        ):
            most = fitted.max_array_size
            raise one_problem(
                f"on: each waits for the same task, and an array of this Slurm has at most {most} "
                f"(MaxArraySize): {len(run.points)} points are several arrays",
                run.loaded.source.locate(("needs", number)),
                f"needs[{number}]",
                "divide the sweep in two specs, or write on: success",
            )
    return fitted
