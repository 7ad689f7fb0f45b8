"""What the arguments of `status` mean: specs, folders of specs, folders of jobs, ids of jobs.

It finds jobs and sweeps; it must not know how they are shown.
"""

from __future__ import annotations

import functools
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clusterjobs.commands.impact.find import find_specs
from clusterjobs.commands.job_folders import SpecJobs, experiment_jobs
from clusterjobs.commands.lab_paths import on_this_machine
from clusterjobs.commands.spec_files import SpecFiles
from clusterjobs.commands.status.job import JobData, JobPlace, job_data
from clusterjobs.commands.status.queue import Queue
from clusterjobs.commands.status.sweep import SweepData, folder_sweep, is_sweep_folder, spec_sweep
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.jobs.folders import JobFolder, job_folders
from clusterjobs.node.job.attempt_files import newest_checkpoint
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import as_text, has_variable

JOB_ID = re.compile(r"[0-9]{1,18}(_[0-9]{1,18})?")


class Group(NamedTuple):
    """The jobs of one spec or folder, the newest last, or a sweep, or both.

    `title`: how it was named. `found`: the spec's jobs, None for a folder. `notes`: what to say.
    """

    title: str
    jobs: list[JobData]
    sweeps: list[SweepData]
    found: SpecJobs | None = None
    notes: tuple[str, ...] = ()


class Finder:
    """Finds the groups of targets; each folder of logs is read once."""

    def __init__(self, queue: Queue, with_points: bool) -> None:
        self.queue, self.with_points = queue, with_points
        self.folders = functools.cache(job_folders)
        self.problems: list[Problem] = []

    def groups(self, target: pathlib.Path) -> Iterator[Group]:
        """Raises InputError if there is nothing of that name, or a spec that is named is wrong."""
        if not target.is_dir():
            yield self.spec(target)
            return
        if group := self.folder(target):
            yield group
            return
        specs = find_specs([target])
        if not specs.specs:
            what = f"{target} has no specs, and no folders of jobs"
            raise one_problem(what, hint="name a spec, a folder with specs, or a `logs` folder")
        for path in specs.specs:
            if os.path.realpath(path) in specs.bases:
                continue
            try:
                group = self.spec(pathlib.Path(os.path.relpath(path)))
            except InputError as error:
                self.problems += error.problems
                continue
            if group.jobs or group.sweeps:
                yield group

    def spec(self, spec: pathlib.Path) -> Group:
        """The jobs of a spec, or its sweep. Raises InputError if it cannot be loaded."""
        files = SpecFiles(spec)
        experiment = files.load().experiment
        if experiment.sweep:
            return Group(str(spec), [], [spec_sweep(files, experiment, self.queue)])
        ended = self.queue.ended_states(experiment.name)
        found = experiment_jobs(
            spec.name, experiment, self.queue.queued, ended, lambda logs: self.folders(logs)
        )
        newest = _checkpoint_finder(experiment)
        jobs = [
            job_data(
                JobPlace(
                    job_id,
                    folder,
                    str(spec),
                    experiment.name,
                    experiment.framework,
                    found.unstarted.get(job_id),
                    newest,
                ),
                self.queue,
            )
            for job_id, folder in found.folders.items()
        ]
        return Group(str(spec), jobs, [], found)

    def folder(self, folder: pathlib.Path) -> Group | None:
        """The jobs of a `logs` folder, of a sweep's folder, or of a job's own; None of another."""
        if (folder / "plan.json").is_file():
            one = [job for job in job_folders(folder.absolute().parent) if job.path.name == folder.absolute().name]
            return Group(str(folder), self._jobs(one), [])
        if is_sweep_folder(folder):
            return Group(str(folder), [], [folder_sweep(folder, self.queue)])
        jobs = [job for job in self.folders(folder) if job.plan]
        below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
        sweeps = [folder_sweep(path, self.queue) for path in below if is_sweep_folder(path)]
        return Group(str(folder), self._jobs(jobs), sweeps) if jobs or sweeps else None

    def _jobs(self, folders: Iterable[JobFolder]) -> list[JobData]:
        return [job_data(_place(one), self.queue) for one in folders]


def _place(job: JobFolder) -> JobPlace:
    spec = job.plan.get("spec")
    file = spec.get("file") if isinstance(spec, dict) else ""
    name, framework = job.plan.get("name"), job.plan.get("framework")
    return JobPlace(job.job_id, job.path, str(file or ""), str(name or ""), str(framework or ""))


def _checkpoint_finder(experiment: Experiment):  # type: ignore[no-untyped-def]
    """Looks for the newest checkpoint, if the folder is the same for all jobs."""
    checkpoints = experiment.checkpoints
    if not checkpoints or has_variable(checkpoints.path) or experiment.framework not in FRAMEWORKS:
        return None
    marker = checkpoints.marker or FRAMEWORKS[experiment.framework].saving.marker
    folder = on_this_machine(as_text(checkpoints.path))
    path = str(folder / as_text(marker)) if marker else None
    return functools.cache(lambda: newest_checkpoint(str(folder), path))
