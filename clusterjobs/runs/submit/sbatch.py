"""Calls sbatch with a record in submissions.jsonl: the intent before, the job's id afterwards.

So a crash in between loses no job, and starts no point twice: the intent's token is in the job's
comment.
"""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.runs.follow.interrupts import postponed_interrupts
from clusterjobs.runs.jobs.folders import (
    NeededJob,
    Submission,
    append_refusal,
    append_submission,
)
from clusterjobs.runs.jobs.identity import token_of
from clusterjobs.runs.run import Run
from clusterjobs.runs.submit.lock import user_name
from clusterjobs.sections.plan import Plan
from clusterjobs.slurm.asking import SlurmError, ask
from clusterjobs.slurm.queue import Queued, known_jobs
from clusterjobs.text import show

# ------------------------------------------------------------------ submit
# Submits a rendered script with sbatch, without variables of another job, and without those that
# would change what was planned: sbatch takes its variables before the directives of the script.


# Variables that locate Slurm; they do not describe a job.
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SBATCH_DEBUG")
# Variables for options that the script may leave open. Source: sbatch(1), input environment.
_OPEN = {
    "SBATCH_ACCOUNT": ("--account", "-A"),
    "SBATCH_CLUSTERS": ("--clusters", "-M"),
    "SBATCH_PARTITION": ("--partition", "-p"),
    "SBATCH_QOS": ("--qos", "-q"),
    "SBATCH_RESERVATION": ("--reservation",),
    "SBATCH_WCKEY": ("--wckey",),
}
_DIRECTIVE = re.compile(r"(?m)^#SBATCH +(--[a-z-]+|-[A-Za-z])")
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
        answer = ask(
            command,
            stdin=script.encode(),
            env=clean(environment, script),
            pass_fds=inherited,
        )
    except FileNotFoundError:
        raise one_problem(
            "there is no sbatch here",
            hint="submit from the cluster's head node, or try the lab: clusterjobs lab up small",
        ) from None
    if answer.code:
        raise _refusal(answer.stderr, answer.code, environment.get("CLUSTERJOBS_LAB", ""))
    # A wrapper or a plug-in may print lines of its own.
    lines = [line.strip() for line in answer.stdout.splitlines()]
    ids = [found for line in lines if (found := _ID.fullmatch(line))]
    job_id, cluster = ids[-1].groups() if ids else (None, None)
    return Submitted(int(job_id) if job_id else None, cluster, tuple(answer.stderr.splitlines()))


_ID = re.compile(r"(\d+)(?:;(\S+))?")


def _refusal(said: str, exit_code: int, lab: str) -> InputError:
    """One problem with all that sbatch said: several lines are still one refused job.

    `lab`: the lab that this shell uses, "" for none.
    """
    lines = [line.removeprefix("sbatch: ").removeprefix("error: ") for line in said.splitlines()]
    text = "; ".join(line.strip() for line in lines if line.strip())
    hint = next((hint for word, hint in _HINTS.items() if word in text.lower()), "")
    if lab and hint:
        hint = (
            f"this shell uses the lab {lab!r}, which may not be the spec's cluster: start a lab of "
            "it with clusterjobs lab up CLUSTER, or submit in a shell without clusterjobs lab env"
        )
    return one_problem(f"{_REFUSED}: {text or f'exit code {exit_code}'}", hint=hint)


# Words of sbatch -> what to look at.
_HINTS = {
    "partition specified": "this Slurm has no such queue: sinfo lists them; is it the cluster that "
    "the spec names?",
    "node configuration is not available": "no nodes of this Slurm fit: see sinfo --Node --long; "
    "is it the cluster that the spec names?",
    "invalid account": "see them with sacctmgr show assoc user=$USER, and write sbatch: "
    "{account: NAME}",
    "invalid qos": "see them with sacctmgr show assoc user=$USER, and write sbatch: {qos: NAME}",
}
_REFUSED = "sbatch refused the job"


def clean(environment: Mapping[str, str], script: str) -> dict[str, str]:
    """The environment without the variables of a job that this shell may be part of, and without
    those that change what the script's directives say."""
    removed = changing_variables(environment, script)
    return {
        name: value
        for name, value in environment.items()
        if name not in removed
        and (name in _KEPT or not (name.startswith(_JOBS_OWN) or name in _RANKS_OWN))
    }


def changing_variables(environment: Mapping[str, str], script: str) -> tuple[str, ...]:
    """The variables by which sbatch would do something else than the script says."""
    given = {*_DIRECTIVE.findall(script)}
    return tuple(
        name
        for name in sorted(environment)
        if name.startswith("SBATCH_")
        and name not in _KEPT
        and (name not in _OPEN or given.intersection(_OPEN[name]))
    )


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
    record: BinaryIO | None,
    say: Callable[[str], None],
) -> Submitted:
    """Write the intent, call sbatch, and write the job's id.

    `options` of sbatch; their comment, or the plan's, is kept. `record`: None if there is no folder
    for it here. Raises InputError: if the id cannot be written, with the id.
    """
    if removed := changing_variables(os.environ, script):
        say(f"not passed on to sbatch, since the spec decides: {', '.join(removed)}")
    comment = "--comment=" + f"{_comment(plan, options)} {intent.comment}".strip()
    with postponed_interrupts(lambda: say("sbatch is running: stopping after its answer")):
        if record:
            record_submission(record, intent)
        inherited = (record.fileno(),) if record else ()
        started = time.monotonic()
        try:
            job = submit(script, (*options, comment), os.environ, inherited=inherited)
        except InputError as error:
            job = _taken_after_all(intent, record, error, time.monotonic() - started)
        if job.job_id is not None and record:
            record_submission(record, intent.with_job(job.job_id, job.cluster))
    return job


# ------------------------------------------------------------------ without an answer
# sbatch also fails if the controller does not answer in time, and the controller may then take the
# job nevertheless. So an error is no proof that there is no job: the queue is.


_SLOW = 5.0  # seconds: sbatch has waited for an answer, or squeue was asked before it came
_PAUSE = 5.0  # seconds in which a controller that answers again takes what waits for it
_BETWEEN = 0.5  # seconds between two questions
_FORGOTTEN = 86_400.0  # seconds after which a request without an answer has left no job
_PATIENCE = 15.0  # seconds for squeue


def _taken_after_all(
    intent: Submission, record: BinaryIO | None, error: InputError, seconds: float
) -> Submitted:
    """The job, if Slurm has it although sbatch failed after `seconds`. Raises InputError."""
    is_refused = seconds < _SLOW
    said = error.problems[0].what.replace(_REFUSED, "sbatch failed", 1)
    try:
        jobs = known_jobs(_PATIENCE) if is_refused else settled_jobs([intent])
    except InputError:
        what = "Slurm does not answer: it is not known whether it has taken the job"
        hint = "submit again when Slurm answers: a job that it has taken is found then"
        if not record:
            hint = (
                f"look for it before you submit again: squeue --me -o '%A %k' | grep {intent.token}"
            )
        raise InputError([Problem(said), Problem(what, hint=hint)]) from None
    for job in jobs or ():
        if token_of(job) == intent.token:
            note = f"Slurm has taken the job, although {said}"
            return Submitted(int(job.array_id or job.job_id), None, (note,))
    if is_refused and record:
        with contextlib.suppress(OSError):  # then the next `submit` looks for the job once more
            append_refusal(record, intent)
    raise error


def settled_jobs(unanswered: Iterable[Submission]) -> tuple[Queued, ...] | None:
    """The jobs that Slurm knows; None without Slurm.

    Asks again while one of the `unanswered` is missing: a controller that answers again may answer
    squeue before it takes the jobs that waited for it.
    """
    tokens = {one.token for one in unanswered if time.time() - one.time < _FORGOTTEN}
    jobs, end = known_jobs(), time.monotonic() + _PAUSE
    while jobs is not None and time.monotonic() < end:
        if tokens <= {token_of(job) for job in jobs}:
            break
        time.sleep(_BETWEEN)
        jobs = known_jobs()
    return jobs


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


def record_submission(file: BinaryIO, submission: Submission) -> None:
    """Write a line of the record. Raises InputError, with the id of a job that was submitted."""
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
        return read_limits(ask(["scontrol", "show", "config"], _PATIENCE).stdout)
    except (FileNotFoundError, SlurmError):
        return Limits()


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
    fitted = run.fitting(slurm_limits().max_array_size)
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
