"""The folders of jobs below a `logs` folder, and the record of a sweep's submissions.

job.sh writes plan.json into its job's folder, so the jobs of one spec can be found even if several
specs share a `logs` folder.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, BinaryIO, NamedTuple

from clusterjobs.files import open_regular

# ------------------------------------------------------------------ submissions
# The record of all calls of sbatch by `submit`: `submissions.jsonl` in the folder of a sweep, or
# without a sweep in `logs`. A user who may not write there has a file of his own beside it.
#
# Each line is one call of sbatch. It is written twice: before the call, as an intent without a job
# id, and after it. Further lines say that Slurm refused it, or which of its jobs were cancelled.


SUBMISSIONS = "submissions.jsonl"
_OF_USERS = "submissions.[0-9]*.jsonl"
MOST = 64 << 20  # bytes that are read: hundreds of submissions of 1,000 points
COMMENT = "clusterjobs:"


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
    `cancelled`: the indexes of the tasks that `cancel` has cancelled, "" for a single job.
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
    cancelled: frozenset[str] = frozenset()

    @property
    def comment(self) -> str:
        """The text in the job's `--comment`, to find a job without a record by squeue."""
        return f"{COMMENT}{self.token}"

    def with_job(self, job_id: int, cluster: str | None) -> Submission:
        """The record that replaces the intent."""
        return replace(self, job_id=job_id, cluster=cluster)


def own_record(uid: int) -> str:
    """The name of the record of a user who may not write to that of the others."""
    return f"submissions.{uid}.jsonl"


def append_submission(file: BinaryIO, submission: Submission) -> None:
    line = asdict(submission)
    del line["cancelled"]
    _append(file, line)


def append_refusal(file: BinaryIO, submission: Submission) -> None:
    """Write that Slurm has refused it, so that nobody looks for its job."""
    _append(file, {"token": submission.token, "refused": True})


def append_cancellation(
    file: BinaryIO, tasks: Mapping[str, Sequence[str]], is_cancelled: bool
) -> None:
    """Write that `cancel` cancels these tasks, or could not. `tasks`: token -> indexes."""
    _append(file, {"cancelled": tasks, "is": is_cancelled, "time": int(time.time())})


def _append(file: BinaryIO, line: Mapping[str, Any]) -> None:
    """Write a line, and fsync it. A truncated line, left by a full disk, is ended first."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1))
    start = b"" if file.read(1) in (b"", b"\n") else b"\n"
    left = start + json.dumps(line).encode() + b"\n"
    while left:  # without the file's buffer: what fails must not be written later, on closing
        left = left[os.write(file.fileno(), left) :]
    os.fsync(file.fileno())


def read_submissions(folder: pathlib.Path) -> tuple[Submission, ...]:
    """The submissions of a sweep in the order of their intents, each with its last line.

    Damaged lines are left out. Nothing if the file is missing, or is no regular file: another user
    may have planted it.
    """
    found: dict[str, Submission] = {}
    cancelled: dict[str, set[str]] = defaultdict(set)
    files = record_files(folder)
    for record in files:
        try:
            with open_regular(record) as file:
                text = file.read(MOST).decode(errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            _add_line(found, cancelled, line)
    known = [replace(one, cancelled=frozenset(cancelled[one.token])) for one in found.values()]
    return tuple(sorted(known, key=lambda one: one.time) if len(files) > 1 else known)


def record_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The records of a folder, which may not exist."""
    return [folder / SUBMISSIONS, *sorted(folder.glob(_OF_USERS))]


def needed_specs(submissions: Iterable[Submission]) -> dict[str, str]:
    """The spec of each job that one of them waits for, by its id, where it is known."""
    return {need.job_id: need.spec for one in submissions for need in one.needs if need.spec}


def _add_line(found: dict[str, Submission], cancelled: dict[str, set[str]], line: str) -> None:
    """Add what a line says to the submissions, or to the cancelled tasks, by their tokens; nothing
    if it is damaged."""
    try:
        record: Any = json.loads(line)
        if "cancelled" in record:
            for token, tasks in record["cancelled"].items():
                change = (
                    cancelled[token].update if record["is"] else cancelled[token].difference_update
                )
                change(map(str, tasks))
        elif "refused" in record:
            found.pop(record["token"], None)
        else:
            one = _submission(record)
            found[one.token] = one
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return


def _submission(record: dict[str, Any]) -> Submission:
    """Raises one of the errors above for a record that is damaged."""
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
        """Whether the job was rendered from the spec with this `name:` and this file name.

        A job with `--set name=...` is found by that name, and by the file's own, which its record
        has if it is in that file.
        """
        spec = self.plan.get("spec")
        if not isinstance(spec, dict) or spec.get("file") != file:
            return False
        if self.plan.get("name") == name:
            return True
        if isinstance(written := spec.get("name"), str):
            return written == name
        settings = spec.get("set")
        return isinstance(settings, list) and any(str(one).startswith("name=") for one in settings)


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


_POINT = re.compile(r"\d{4,}-.+-[0-9a-f]{8}")


def is_point(name: str) -> bool:
    """Whether it is the name of a sweep's point, and not of a plain job or of a job's folder."""
    return bool(_POINT.fullmatch(name))


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
