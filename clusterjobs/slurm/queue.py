"""The jobs in Slurm's queue: lists them with squeue, cancels them with scancel."""

import os
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.slurm.asking import SlurmError, ask


@dataclass(frozen=True)
class Queued:
    """A job that Slurm knows. All fields but `user_id` are as Slurm prints them, "" if unknown.

    `array_index`: "" if it is no task of an array; then `array_id` is the job's own id. Tasks that
    wait share their array's id as `job_id`: each gets one of its own when it starts. `start`: when
    it started, or is expected to; like `submitted`, in local time: 2026-11-22T15:04:05.
    `dependency`: `afterok:12(unfulfilled)`.
    """

    job_id: str
    state: str
    reason: str
    time_left: str
    nodes: str
    user_id: int
    name: str
    array_id: str = ""
    array_index: str = ""
    comment: str = ""
    start: str = ""
    submitted: str = ""
    dependency: str = ""
    time_limit: str = ""
    partition: str = ""
    workdir: str = ""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def shown_id(self) -> str:
        """`123`, or `123_4` for a task of an array, as scancel takes it."""
        return f"{self.array_id}_{self.array_index}" if self.array_index else self.job_id


# The fields of Queued, and squeue's columns.
_COLUMNS = {
    "job_id": "%A",
    "state": "%T",
    "reason": "%r",
    "time_left": "%L",
    "nodes": "%N",
    "user_id": "%U",
    "name": "%j",
    "array_id": "%F",
    "array_index": "%K",
    "comment": "%k",
    "start": "%S",
    "submitted": "%V",
    "dependency": "%E",
    "time_limit": "%l",
    "partition": "%P",
    "workdir": "%Z",
}
_USER = [*_COLUMNS].index("user_id")
_CLUSTER = "CLUSTER: "  # a line before the jobs of each cluster, if SLURM_CLUSTERS names some
_NOTHING = frozenset(("N/A", "(null)", "INVALID"))


def queued_jobs() -> dict[str, Queued] | None:
    """The jobs that have not ended, of all users, by id; None without Slurm.

    A task of an array by its own id, or as `123_4` while it has none (see Queued).
    """
    jobs = known_jobs()
    return None if jobs is None else by_id(job for job in jobs if not job.has_ended)


def by_id(jobs: Iterable[Queued]) -> dict[str, Queued]:
    """The jobs by their own ids; tasks that share their array's id as `123_4`."""
    listed = list(jobs)
    count = Counter(job.job_id for job in listed)
    return {job.job_id if count[job.job_id] == 1 else job.shown_id: job for job in listed}


def known_jobs(patience: float | None = None) -> tuple[Queued, ...] | None:
    """All jobs that Slurm knows, by one call of squeue: None without Slurm.

    Slurm knows jobs that have ended, too, by default for 5 minutes (MinJobAge). `patience`: seconds
    until squeue is given up; None: it waits as long as Slurm's own timeouts. Raises SlurmError.
    """
    rows = _squeue(_COLUMNS.values(), patience)
    if rows is None:
        return None
    jobs = []
    for row in rows:
        cells = dict(zip(_COLUMNS, row, strict=True))
        cells |= {key: "" for key, cell in cells.items() if cell in _NOTHING and key != "name"}
        jobs.append(Queued(user_id=int(cells.pop("user_id")), **cells))
    return tuple(jobs)


# Slurm's states of a job that waits for its start, or its next one.
WAITING = frozenset(
    ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
)
# Slurm's final base states. A requeued job is PENDING again.
ENDED = frozenset(
    (
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
    )
)


def shown_job(job_id: str) -> str:
    """What `scontrol show job` prints of it on one line; "" if it is not known."""
    asked = ["scontrol", "--oneliner", "show", "job", job_id]
    try:
        answer = ask(asked, PATIENCE)
    except (FileNotFoundError, SlurmError):
        return ""
    return answer.stdout if answer.code == 0 else ""


PATIENCE = 10.0  # seconds, for commands that can answer without Slurm


def jobs_if_known(say: Callable[[str], None]) -> tuple[Queued, ...] | None:
    """The jobs that Slurm knows; None without Slurm, and if it does not answer soon.

    For commands that then show what the jobs have recorded; `say` prints what is not known.
    """
    try:
        return known_jobs(PATIENCE)
    except SlurmError as error:
        what = "; ".join(one.what for one in error.problems)
        say(f"{what}: only what the jobs have recorded is known, not which of them still run")
        return None


def _squeue(columns: Iterable[str], patience: float | None) -> list[list[str]] | None:
    """squeue's rows, one for each task of an array; None without Slurm.

    Names and comments may have any character. So the marks between rows and columns are random:
    nobody can put them into the name of a job.
    """
    token = secrets.token_hex(8)
    row_mark, mark = f"{token}/", f"{token},"
    asked = [
        "squeue",
        "--noheader",
        "--array",
        "--states=all",
        f"--format={row_mark}{mark.join(columns)}",
    ]
    # without the variables that filter what squeue prints, or change how it prints times
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SQUEUE_")}
    environment["SLURM_TIME_FORMAT"] = "standard"
    try:
        answer = ask(asked, patience, env=environment)
    except FileNotFoundError:
        return None
    if answer.code:
        raise _refused("squeue", answer.stderr)
    before, *rows = answer.stdout.split(row_mark)
    cells = [row.removesuffix("\n").split(mark) for row in rows]
    strange = [line for line in before.split("\n") if line and not line.startswith(_CLUSTER)]
    if strange or any(len(row) != len(_COLUMNS) or not row[_USER].isdecimal() for row in cells):
        # else a queue that cannot be read would look empty, and points would be started twice
        raise _refused("squeue", f"its output cannot be read: {before[:200].strip() or 'a row'}")
    return cells


def _refused(program: str, said: str) -> InputError:
    lines = said.strip().splitlines() or ["it failed without a message"]
    return SlurmError(Problem(f"{program}: {line}") for line in lines)


# ------------------------------------------------------------------ array ids
# How Slurm writes several tasks of an array: `0-3,7` and `4711_[0-3,7]`. Pure.


def as_ranges(indexes: Iterable[int]) -> str:
    """The indexes as in `sbatch --array`: `0-3,7,9-11`."""
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def joined_tasks(job_ids: Iterable[str]) -> dict[str, list[str]]:
    """Jobs as few arguments of scancel: `4711_[0-3,7]` -> its tasks, `12` -> itself."""
    arrays: dict[str, dict[int, str]] = {}
    found: dict[str, list[str]] = {}
    for job_id in job_ids:
        array, mark, index = job_id.partition("_")
        if mark:
            arrays.setdefault(array, {})[int(index)] = job_id
        else:
            found[job_id] = [job_id]
    for array, tasks in arrays.items():
        several = f"{array}_[{as_ranges(tasks)}]"
        found[several if len(tasks) > 1 else next(iter(tasks.values()))] = list(tasks.values())
    return found


# ------------------------------------------------------------------ scancel


_ERROR = re.compile(r"job id ([0-9]+(?:_(?:[0-9]+|\[[0-9,-]+\]))?): *(.*)")
_AT_A_TIME = 1_000  # arguments on one command line


def cancel(job_ids: Sequence[str]) -> dict[str, str]:
    """Cancel jobs, and return scancel's error message for each job that it could not cancel.

    `123_4` is one task of an array; many tasks of one array are one argument of scancel. Raises
    InputError without scancel.
    """
    joined = joined_tasks(job_ids)
    refused = _cancel(joined)
    if not any(len(joined[word]) > 1 for word in refused):
        return refused
    # One task has ended meanwhile, perhaps: ask for each, so that the answer is right for all.
    each = [job_id for word in refused for job_id in joined[word]]
    return _cancel({job_id: [job_id] for job_id in each})


def _cancel(words: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Call scancel, as often as needed for so many words."""
    refused: dict[str, str] = {}
    for first in range(0, len(words), _AT_A_TIME):
        refused |= _call(list(words)[first : first + _AT_A_TIME])
    return refused


def _call(words: Sequence[str]) -> dict[str, str]:
    try:
        answer = ask(["scancel", "--", *words])
    except FileNotFoundError:
        raise one_problem(
            "there is no scancel here", hint="run it on the cluster's head node"
        ) from None
    said = answer.stderr
    refused = {word: why for word, why in _ERROR.findall(said) if word in words}
    if answer.code and not refused:
        lines = said.strip().splitlines() or ["it failed without a message"]
        refused = dict.fromkeys(words, "; ".join(line.strip() for line in lines))
    return refused
