"""The folders of a sweep's points and of their jobs, and what a point is known by.

A point is known by its digest, the last part of its name: its index moves when the spec is
extended. This module reads folders; it must not know the states of points.
"""

from __future__ import annotations

import os
import pathlib
from collections import defaultdict
from collections.abc import Iterable

from clusterjobs.jobs.folders import read_plan
from clusterjobs.jobs.submissions import Submission


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
