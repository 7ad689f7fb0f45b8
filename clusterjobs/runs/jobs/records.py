"""The records of a job: attempts.jsonl, whose schema is attempt.py's, and data.jsonl."""

import json
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from clusterjobs.node.job.attempt_files import (
    MAX_RECORDS,
    latest_by_attempt,
    read_end,
    read_records,
)
from clusterjobs.runs.jobs.folders import read_plan
from clusterjobs.slurm.queue import WAITING

_MOST = 10**11  # seconds since 1970 of the year 5138: beyond it, a record is damaged or hostile
NO_RECORD = "no_record"  # the reason of an attempt that began, and whose end nobody recorded

REQUEUED = "requeued"  # by Slurm, after a lost node, or by `scontrol requeue`

# Why a job ended that could not record it, by Slurm's state. FAILED says nothing.
OF_SLURM = {
    "CANCELLED": "cancelled",
    "TIMEOUT": "time_limit",
    "DEADLINE": "deadline",
    "NODE_FAIL": "node_failure",
    "BOOT_FAIL": "node_failure",
    "OUT_OF_MEMORY": "out of memory",
    "PREEMPTED": "preempted",
}


@dataclass(frozen=True)
class Attempt:
    """One attempt of a job. `seconds` of its script, `ended` in seconds since 1970; None: unknown.

    `began` and `submitted`, when Slurm last put the job into the queue, are known of jobs with
    restarts. `reason` is one of `attempt.REASONS`, `failure of ROLE`, REQUEUED, or
    NO_RECORD.
    """

    number: int
    reason: str
    checkpoint: str
    exit_code: int | None
    nodes: str
    seconds: int | None
    ended: int | None
    began: int | None = None
    submitted: int | None = None


_EXPORT = "export "  # the start of an export's name in data.jsonl
_INCOMPLETE = ("failed", "INCOMPLETE")  # the starts of what export.py reports


def corrected_by_slurm(attempts: tuple[Attempt, ...], state: str) -> tuple[Attempt, ...]:
    """The attempts, of which the last may have taken a lost node's SIGTERM for that of scancel.

    `state`: Slurm's; a job that was cancelled does not wait in the queue.
    """
    reason = REQUEUED if state in WAITING else OF_SLURM.get(state)
    if not attempts or attempts[-1].reason != "cancelled" or not reason:
        return attempts
    return (*attempts[:-1], replace(attempts[-1], reason=reason))


@dataclass(frozen=True)
class DataState:
    """The state of a data set or an export: its name `what`, and the last report about it.

    `node` is "" if it is for all nodes; `time` in seconds since 1970.
    """

    node: str
    what: str
    said: str
    time: int | None

    @property
    def is_incomplete(self) -> bool:
        """Whether it is an export of which something is missing."""
        return self.said.startswith(_INCOMPLETE)


@dataclass(frozen=True)
class Records:
    """What a job's folder says. `cut`: the files of which only the end was read."""

    attempts: tuple[Attempt, ...]
    data: tuple[DataState, ...]
    exports: tuple[DataState, ...]
    cut: tuple[str, ...]


def read_folder(folder: pathlib.Path) -> Records:
    """The records of a job; its files may be missing."""
    attempts, data = folder / "attempts.jsonl", folder / "data.jsonl"
    states = read_data(records_in(data))
    return Records(
        read_attempts(records_in(attempts)),
        tuple(one for one in states if not one.what.startswith(_EXPORT)),
        tuple(one for one in states if one.what.startswith(_EXPORT)),
        tuple(str(file) for file in (attempts, data) if _size(file) > MAX_RECORDS),
    )


def unrecorded_attempts(
    folder: pathlib.Path, attempts: tuple[Attempt, ...], reason: str = NO_RECORD
) -> tuple[Attempt, ...]:
    """The attempt that began last, if it has no record, or none. `reason`: why it ended.

    For a job that has ended: kill -9 of its script, or a node lost for good. Jobs with restarts
    write the number down; of others, only a first attempt is known.
    """
    words = (line.split() for line in records_in(folder / "started").splitlines())
    started = [int(one[0]) for one in words if one and one[0].isdecimal() and len(one[0]) < 9]
    number = max(started, default=int((folder / "plan.json").exists()))
    recorded = max((one.number for one in attempts), default=0)
    if number <= recorded:
        return ()
    return (Attempt(number, reason, "", None, "", None, None),)


def records_in(file: pathlib.Path) -> str:
    """The end of a file of records; "" if it cannot be read."""
    try:
        return read_end(str(file))
    except OSError:
        return ""


def _size(file: pathlib.Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:
        return 0


def read_attempts(text: str) -> tuple[Attempt, ...]:
    """The last record of each attempt of `attempts.jsonl`, in order."""
    return tuple(map(_attempt, latest_by_attempt(read_records(text))))


def read_data(text: str) -> tuple[DataState, ...]:
    """The last state of all that `data.jsonl` names, in the order of their first lines."""
    found: dict[tuple[str, str], DataState] = {}
    for one in _data_records(text):
        node = str(one.get("node") or "")
        said, time = str(one.get("said", "")), _number(one.get("time"))
        found[one["what"], node] = DataState(node, one["what"], said, time)
    return tuple(found.values())


def _data_records(text: str) -> Iterator[dict[str, Any]]:
    """The lines of data.jsonl, without those that a full disk has truncated."""
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("what"), str):
            yield record


def _attempt(record: dict[str, Any]) -> Attempt:
    return Attempt(
        record["attempt"],
        str(record.get("reason", "")),
        str(record.get("checkpoint") or ""),
        _number(record.get("exit_code")),
        str(record.get("nodes") or ""),
        _duration(record.get("seconds")),
        _number(record.get("ended")),
        _number(record.get("began")),
        _number(record.get("submitted")),
    )


def _duration(value: object) -> int | None:
    """Unknown if negative: the clock was set back."""
    seconds = _number(value)
    return None if seconds is None or seconds < 0 else seconds


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < _MOST else None


# ------------------------------------------------------------------ roles
# The roles of a job, from the plan.json in its folder.


def job_roles(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The roles, with their nodes, numbered from 1 among the job's nodes: "3", or "3-4".

    Empty if the job has none, or if plan.json is missing or damaged.
    """
    found = read_plan(folder / "plan.json").get("roles")
    roles = found if isinstance(found, list) else []
    return [_role(one, folder) for one in roles if isinstance(one, dict) and _is_whole(one)]


def _is_whole(role: dict[str, Any]) -> bool:
    is_number = all(isinstance(role.get(key), int) for key in ("first_node", "nodes"))
    return is_number and isinstance(role.get("name"), str)


def _role(role: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    first, last = role["first_node"] + 1, role["first_node"] + role["nodes"]
    return {
        "role": role["name"],
        "nodes": str(first) if first == last else f"{first}-{last}",
        "port": role["port"] if isinstance(role.get("port"), int) else None,
        "log": str(folder / f"{role['name']}.log"),
    }
