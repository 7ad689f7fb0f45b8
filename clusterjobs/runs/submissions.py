"""The record of all calls of sbatch by `submit`: `submissions.jsonl` in the folder of a sweep.

Each line is one call of sbatch. It is written twice: before the call, as an intent without a job
id, and after it.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, BinaryIO

from clusterjobs.files import open_regular

SUBMISSIONS = "submissions.jsonl"
MOST = 64 << 20  # bytes that are read: hundreds of submissions of 1,000 points
_COMMENT = "clusterjobs:"


@dataclass(frozen=True)
class NeededJob:
    """A job that another one waits for; `on`: as in `needs`. `spec`: "" if only its id was given.

    `folder`: where the folder of the job is, or those of the points of a sweep.
    """

    spec: str
    job_id: str
    on: str
    folder: str = ""


@dataclass(frozen=True)
class Submission:
    """One call of sbatch.

    `job_id` is None for an intent. `points`: task -> name of its point; a task is the index in the
    array, "" for a single job; in a packed sweep "3.1" is slot 1 of task 3. `content`: name of a
    point -> its content hash. `time` in seconds since 1970. `needs`: the jobs that it waits for.
    """

    token: str
    job_id: int | None
    user: str
    time: int
    spec: str
    array: bool
    points: Mapping[str, str]
    content: Mapping[str, str] = field(default_factory=dict)
    cluster: str | None = None
    needs: tuple[NeededJob, ...] = ()

    @property
    def comment(self) -> str:
        """The text in the job's `--comment`, to find a job without a record by squeue."""
        return f"{_COMMENT}{self.token}"

    def with_job(self, job_id: int, cluster: str | None) -> Submission:
        """The record that replaces the intent."""
        return replace(self, job_id=job_id, cluster=cluster)


def has_token(comment: str) -> bool:
    """Whether a job with this comment was submitted by `clusterjobs submit`."""
    return _COMMENT in comment


def append_submission(file: BinaryIO, submission: Submission) -> None:
    """Write a line, and fsync it. `file` is opened by `open_to_append`.

    A truncated line, left by a full disk, is ended first.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    start = b"" if file.read(1) in (b"", b"\n") else b"\n"
    left = start + json.dumps(asdict(submission)).encode() + b"\n"
    while left:  # without the file's buffer: what fails must not be written later, on closing
        left = left[os.write(file.fileno(), left) :]
    os.fsync(file.fileno())


def read_submissions(folder: pathlib.Path) -> tuple[Submission, ...]:
    """The submissions of a sweep in the order of their intents, each with its last line.

    Damaged lines are left out. Nothing if the file is missing, or is no regular file: another user
    may have planted it.
    """
    try:
        with open_regular(folder / SUBMISSIONS) as file:
            text = file.read(MOST).decode(errors="replace")
    except OSError:
        return ()
    found: dict[str, Submission] = {}
    for line in text.splitlines():
        if one := _submission(line):
            found[one.token] = one
    return tuple(found.values())


def needed_specs(submissions: Iterable[Submission]) -> dict[str, str]:
    """The spec of each job that one of them waits for, by its id, where it is known."""
    return {need.job_id: need.spec for one in submissions for need in one.needs if need.spec}


def _submission(line: str) -> Submission | None:
    """The submission of a line; None if it is damaged."""
    try:
        record: Any = json.loads(line)
        job_id, cluster = record["job_id"], record.get("cluster")
        return Submission(
            token=_token(record["token"]),
            job_id=None if job_id is None else int(job_id),
            user=str(record["user"]),
            time=int(record["time"]),
            spec=str(record["spec"]),
            array=bool(record["array"]),
            points=_texts(record["points"]),
            content=_texts(record.get("content", {})),
            cluster=None if cluster is None else str(cluster),
            needs=_needs(record.get("needs")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _needs(value: Any) -> tuple[NeededJob, ...]:
    """They only serve for explanations: a job is identified without them."""
    found = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    keys = ("spec", "job_id", "on", "folder")
    return tuple(NeededJob(*(str(one.get(key, "")) for key in keys)) for one in found)


def _token(value: Any) -> str:
    if not isinstance(value, str) or not value.isalnum():
        raise ValueError(value)
    return value


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(item) for key, item in value.items()}
