"""The folders of jobs below a `logs` folder, and the record of a sweep's submissions.

job.sh writes plan.json into its job's folder, so the jobs of one spec can be found even if several
specs share a `logs` folder.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, BinaryIO, NamedTuple

from clusterjobs.files import open_regular

# ------------------------------------------------------------------ submissions
# The record of all calls of sbatch by `submit`: `submissions.jsonl` in the folder of a sweep.
# Each line is one call of sbatch. It is written twice: before the call, as an intent without a job
# id, and after it.


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


_MAX_PLAN = 1 << 20  # bytes; a longer file is damaged


class JobFolder(NamedTuple):
    """The folder `<logs>/<job id>` of one job; `plan` is the content of its plan.json."""

    job_id: str
    path: pathlib.Path
    plan: dict[str, Any]

    def is_of(self, name: str, file: str) -> bool:
        """Whether the job was rendered from the spec with this `name:` and this file name."""
        spec = self.plan.get("spec")
        if not isinstance(spec, dict) or spec.get("file") != file:
            return False
        settings = spec.get("set")
        renamed = isinstance(settings, list) and any(
            str(one).startswith("name=") for one in settings
        )
        return renamed or self.plan.get("name") == name


def job_folders(logs: pathlib.Path) -> list[JobFolder]:
    """The folders of all jobs below `logs`, the newest job last; links are not followed."""
    found = [path for path in logs.glob("[0-9]*") if path.name.isdecimal()]
    paths = [path for path in found if path.is_dir() and not path.is_symlink()]
    return [
        JobFolder(path.name, path, read_plan(path / "plan.json"))
        for path in sorted(paths, key=lambda path: int(path.name))
    ]


def read_plan(path: pathlib.Path) -> dict[str, Any]:
    """An empty plan if the file is missing or damaged: the job's spec is unknown."""
    try:
        with open_regular(path) as file:
            plan = json.loads(file.read(_MAX_PLAN).decode(errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return plan if isinstance(plan, dict) else {}


# ------------------------------------------------------------------ point folders
# The folders of a sweep's points and of their jobs, and what a point is known by.
# A point is known by its digest, the last part of its name: its index moves when the spec is
# extended.


def digest_of(name: str) -> str:
    """The part of a point's name that stays the same when its index moves."""
    return name.rpartition("-")[2]


def former_points(submissions: Iterable[Submission], points: Iterable[str]) -> tuple[str, ...]:
    """The last names of points that were submitted, and are none of `points`."""
    names = {digest_of(name): name for one in submissions for name in one.points.values()}
    known = set(map(digest_of, points))
    return tuple(name for digest, name in names.items() if digest not in known)


def point_folders(sweep: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    """Digest -> the folders of that point, by one look into the sweep's folder.

    There are several if the point's index has moved. Links are not followed.
    """
    found: dict[str, list[pathlib.Path]] = defaultdict(list)
    for name in sorted(_folders_in(sweep)):
        found[digest_of(name)].append(sweep / name)
    return dict(found)


def point_jobs(folders: Iterable[pathlib.Path]) -> list[pathlib.Path]:
    """The folders of the jobs of one point, the newest last."""
    jobs = [folder / name for folder in folders for name in _folders_in(folder) if name.isdecimal()]
    if len(jobs) > 1:
        jobs.sort(key=lambda job: (start_time(job), int(job.name)))
    return jobs


def start_time(job: pathlib.Path) -> float:
    """When the job's last attempt began: it writes plan.json."""
    try:
        return (job / "plan.json").lstat().st_mtime
    except OSError:
        return 0


def _folders_in(folder: pathlib.Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def content_of(job: pathlib.Path) -> str:
    """The content hash in the job's plan.json; "" if it is unknown."""
    plan = read_plan(job / "plan.json")
    point = plan.get("point", plan)
    return str(point.get("content", "")) if isinstance(point, dict) else ""
