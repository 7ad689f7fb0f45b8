"""The names, states and jobs of a sweep's points, for `logs`, `cancel` and `run`.

It reads the sweep's folder; it must not print, nor ask Slurm.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.commands.spec_files import SpecFiles
from clusterjobs.commands.submit.sweep_folder import sweep_folder
from clusterjobs.jobs.point_folders import digest_of, former_points, point_folders, point_jobs
from clusterjobs.jobs.submissions import read_submissions
from clusterjobs.jobs.sweeps import PointState, sweep_states
from clusterjobs.slurm.queue import Queued, by_id
from clusterjobs.spec.load import Spec

_INDEX = re.compile("[0-9]{1,9}-")  # what begins the name of a point


class SweepJobs(NamedTuple):
    """A sweep: its folder, and the index of each point by its name.

    Submitted points that the spec no longer has come first.
    """

    spec: pathlib.Path
    folder: pathlib.Path
    points: dict[str, int]

    def states(self, jobs: Sequence[Queued] | None) -> dict[str, PointState]:
        """The state of each point. `jobs`: what Slurm knows; None without Slurm."""
        submissions = read_submissions(self.folder)
        queued = None if jobs is None else by_id(job for job in jobs if not job.has_ended)
        ended = by_id(job for job in jobs or () if job.has_ended)
        points = dict.fromkeys(self.points, "")
        return sweep_states(self.folder, points, submissions, queued, ended)

    @property
    def arrays(self) -> set[str]:
        """The ids of the jobs that were submitted."""
        return {str(one.job_id) for one in read_submissions(self.folder)}

    def point_with_job(self, job_id: str, states: dict[str, PointState]) -> str | None:
        """The name of the point that this job runs."""
        folders = point_folders(self.folder)
        for name, state in states.items():
            jobs = point_jobs(folders.get(digest_of(name), ()))
            if job_id == state.job_id or any(job.name == job_id for job in jobs):
                return name
        return None


def sweep_jobs(spec: pathlib.Path, settings: Sequence[str] = ()) -> tuple[Spec, SweepJobs | None]:
    """The spec, or its first point, and its sweep, if it has one. Raises InputError."""
    specs = SpecFiles(spec).load_points(settings)
    if specs[0].point is None:
        return specs[0], None
    folder = sweep_folder(specs[0].experiment)
    points = {one.point.name: one.point.index for one in specs if one.point}
    former = {
        name: int(name.partition("-")[0])
        for name in former_points(read_submissions(folder), points)
        if _INDEX.match(name)
    }
    return specs[0], SweepJobs(spec, folder, {**former, **points})
