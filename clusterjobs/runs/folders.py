"""The folders of jobs below a `logs` folder, and the spec that each job was rendered from.

job.sh writes plan.json into its job's folder, so the jobs of one spec can be found even if several
specs share a `logs` folder.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from clusterjobs.files import open_regular
from clusterjobs.runs.submissions import Submission

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
#
# The folders of a sweep's points and of their jobs, and what a point is known by.
#
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
