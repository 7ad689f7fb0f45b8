"""What the arguments of `status` mean: specs, folders of specs, folders of jobs.

First everything is read that may grow meanwhile (specs, submissions), then Slurm is asked, then the
folders of jobs are read: a job that ends in between has written its record by then.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from clusterjobs.commands.impact.find import find_specs
from clusterjobs.commands.job_folders import SpecJobs, experiment_jobs
from clusterjobs.commands.lab_paths import named_here, on_this_machine
from clusterjobs.commands.spec_files import SpecFiles
from clusterjobs.commands.status.job import JobData, JobPlace, job_data, log_patterns
from clusterjobs.commands.status.queue import Queue
from clusterjobs.commands.status.sweep import SweepData, folder_sweep, is_sweep_folder, spec_sweep
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.jobs.folders import JobFolder, job_folders
from clusterjobs.jobs.submissions import needed_specs
from clusterjobs.node.job.attempt_files import newest_checkpoint
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import as_text, has_variable


class Group(NamedTuple):
    """The jobs of a spec or a folder, the newest last, and the sweeps.

    `title`: how it was named. `found`: the jobs of a spec; None for a folder or a sweep.
    """

    title: str
    jobs: tuple[JobData, ...]
    sweeps: tuple[SweepData, ...] = ()
    found: SpecJobs | None = None


View = Callable[[Queue], Group]


class Finder:
    """Finds what targets name. `problems`: of specs in folders, which do not stop the others."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._folders_below = functools.cache(job_folders)  # several specs may share one `logs`

    def views(self, target: pathlib.Path) -> Iterator[View]:
        """Raises InputError if there is nothing, or a spec that is named is wrong."""
        folder = named_here(target)
        if not folder.is_dir():
            yield self.spec(target)
        elif view := self._folder(folder):
            yield view
        else:
            yield from self._specs_below(target)

    def spec(self, spec: pathlib.Path) -> View:
        """A spec that is named. Raises InputError if it cannot be loaded."""
        points = SpecFiles(spec).load_points()
        experiment = points[0].experiment
        if experiment.sweep is None:
            return functools.partial(self._jobs_of_spec, spec, experiment)
        sweep = spec_sweep(spec, points)
        return lambda queue: Group(str(spec), (), (sweep.with_states(queue),))

    def _jobs_of_spec(self, spec: pathlib.Path, experiment: Experiment, queue: Queue) -> Group:
        name, patterns = experiment.name, log_patterns(experiment.framework)
        ended = queue.ended_states(name)
        found = experiment_jobs(spec.name, experiment, queue.queued, ended, self._folders_below)
        newest = _checkpoint_finder(experiment)
        known = JobPlace("", None, str(spec), name, patterns, None, newest)
        known = known._replace(needed_specs=needed_specs(found.submissions))
        places = (
            known._replace(job_id=one, folder=folder, unstarted=found.unstarted.get(one))
            for one, folder in found.folders.items()
        )
        return Group(str(spec), tuple(job_data(place, queue) for place in places), (), found)

    def _specs_below(self, folder: pathlib.Path) -> Iterator[View]:
        found = find_specs([folder])
        if not found.specs:
            what = f"{folder} has no specs, and no folders of jobs"
            raise one_problem(what, hint="name a spec, a folder with specs, or a `logs` folder")
        for path in found.specs:
            if os.path.realpath(path) not in found.bases:
                try:
                    yield self.spec(pathlib.Path(os.path.relpath(path)))
                except InputError as error:
                    self.problems += error.problems

    def _folder(self, folder: pathlib.Path) -> View | None:
        """A `logs` folder, the folder of a sweep, or of one job; None for another one."""
        if (folder / "plan.json").is_file():
            of_job = folder.absolute()
            jobs = [job for job in job_folders(of_job.parent) if job.path == of_job]
            return lambda queue: Group(str(folder), _all_data(jobs, queue))
        below = [folder, *_folders_in(folder)]
        sweeps = [folder_sweep(path) for path in below if is_sweep_folder(path)]
        jobs = [job for job in self._folders_below(folder) if job.plan]
        if not jobs and not sweeps:
            return None
        return lambda queue: Group(
            str(folder),
            _all_data(jobs, queue),
            tuple(sweep.with_states(queue) for sweep in sweeps),
        )


def _folders_in(folder: pathlib.Path) -> list[pathlib.Path]:
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())
    except OSError as error:
        raise one_problem(f"cannot read {folder}: {error.strerror}") from None


def _all_data(folders: Iterable[JobFolder], queue: Queue) -> tuple[JobData, ...]:
    patterns = functools.cache(log_patterns)
    return tuple(job_data(_place(one, patterns), queue) for one in folders)


def _place(job: JobFolder, patterns: Callable[[str], tuple[str, ...]]) -> JobPlace:
    spec = job.plan.get("spec")
    file = spec.get("file") if isinstance(spec, dict) else ""
    name, framework = job.plan.get("name"), str(job.plan.get("framework"))
    return JobPlace(job.job_id, job.path, str(file or ""), str(name or ""), patterns(framework))


def _checkpoint_finder(experiment: Experiment) -> Callable[[], str] | None:
    """Looks for the newest checkpoint, if the folder is the same for all jobs of the spec."""
    wanted = experiment.checkpoints
    marker = wanted and (wanted.marker or FRAMEWORKS[experiment.framework].saving.marker)
    if wanted is None or any(
        "{" in one or has_variable(one) for one in (wanted.path, marker or "")
    ):
        return None
    folder = on_this_machine(as_text(wanted.path))
    path = str(folder / marker) if marker else None
    return functools.cache(lambda: newest_checkpoint(str(folder), path))
