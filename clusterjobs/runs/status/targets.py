"""What the arguments of `status` mean: specs, folders of specs, folders of jobs.

First everything is read that may grow meanwhile (specs, submissions), then Slurm is asked, then the
folders of jobs are read: a job that ends in between has written its record by then.
"""

import functools
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.node.job.attempt_files import newest_checkpoint
from clusterjobs.plugins import named_here, on_this_machine
from clusterjobs.runs.find_specs import find_specs, specs_of
from clusterjobs.runs.jobs.find import SpecJobs, jobs_of_spec
from clusterjobs.runs.jobs.folders import (
    JobFolder,
    job_folders,
    needed_specs,
    read_submissions,
)
from clusterjobs.runs.jobs.identity import is_of_folder, is_of_submission
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.runs.status.job import JobData, JobPlace, Queue, job_data, log_patterns
from clusterjobs.runs.status.sweep import SweepData, folder_sweep, spec_sweep
from clusterjobs.slurm.queue import Queued, by_id
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import Text


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
    """Finds what targets name. `problems`: of specs in folders, which do not stop the others.

    `settings`: of --set, for the specs.
    """

    def __init__(self, settings: Sequence[str] = ()) -> None:
        self._settings = settings
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
        points = SpecFiles(spec).load_points(self._settings)
        written = points[0].spec
        if written.sweep is None:
            return functools.partial(self._jobs_of_spec, spec, written)
        sweep = spec_sweep(spec, points)
        return lambda queue: Group(str(spec), (), (sweep.with_states(queue),))

    def _jobs_of_spec(self, file: pathlib.Path, spec: Experiment, queue: Queue) -> Group:
        name, patterns = spec.name, log_patterns(spec.framework)
        found = jobs_of_spec(file.name, spec, queue.known, self._folders_below)
        newest = _checkpoint_finder(spec)
        known = JobPlace("", None, str(file), name, patterns, None, newest)
        known = known._replace(needed_specs=needed_specs(found.submissions))
        places = (
            known._replace(
                job_id=one,
                folder=folder,
                unstarted=found.unstarted.get(one),
                queued=found.queued.get(one),
                ended=found.ended.get(one),
                end=found.end_of(one),
            )
            for one, folder in found.folders.items()
        )
        return Group(str(file), tuple(job_data(place, queue) for place in places), (), found)

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
        sweeps = [sweep for path in below if (sweep := folder_sweep(path))]
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
    submissions = functools.cache(read_submissions)
    found = []
    for one in folders:
        job, recorded = (queue.queued or {}).get(one.job_id), submissions(one.path.parent)
        queued = job if job and is_of_folder(job, one.path, recorded) else None
        found.append(job_data(_place(one, patterns)._replace(queued=queued), queue))
    return tuple(found)


def _place(job: JobFolder, patterns: Callable[[str], tuple[str, ...]]) -> JobPlace:
    spec = job.plan.get("spec")
    file = spec.get("file") if isinstance(spec, dict) else ""
    name, framework = job.plan.get("name"), str(job.plan.get("framework"))
    return JobPlace(job.job_id, job.path, str(file or ""), str(name or ""), patterns(framework))


def _checkpoint_finder(spec: Experiment) -> Callable[[], str] | None:
    """Looks for the newest checkpoint, if the folder is the same for all jobs of the spec."""
    wanted = spec.checkpoints
    marker = wanted and (wanted.marker or FRAMEWORKS[spec.framework].saving.marker)
    if wanted is None or isinstance(wanted.path, Text) or isinstance(marker, Text):
        return None
    if "{" in wanted.path or "{" in (marker or ""):
        return None
    folder = on_this_machine(wanted.path)
    path = str(folder / marker) if marker else None
    return functools.cache(lambda: newest_checkpoint(str(folder), path))


# ------------------------------------------------------------------ mine
# This user's jobs, whatever their specs: those that Slurm knows.
# The spec of a job is looked for in the folder in which it was submitted. A job of another spec is
# shown with what Slurm says of it.


def my_groups(finder: Finder, queue: Queue) -> Iterator[Group]:
    """The jobs of each spec that is found, then the others."""
    ended = by_id(queue.my_ended)
    mine = {**ended, **queue.my_queued}
    shown: set[str] = set()
    for spec in specs_of(mine.values()):
        try:
            group = finder.spec(spec)(queue)
        except InputError:
            continue  # its jobs are shown without it
        own = group.found and {*group.found.queued, *group.found.ended}
        jobs = tuple(job for job in group.jobs if job["job_id"] in (own or ()))
        of_sweeps = {job_id for sweep in group.sweeps for job_id in _tasks(sweep, mine)}
        shown |= {job["job_id"] for job in jobs} | of_sweeps
        if jobs or of_sweeps:
            yield group._replace(jobs=jobs)
    others = [
        JobPlace(
            *(job_id, None, "", job.name),
            ended=ended.get(job_id),
            queued=queue.my_queued.get(job_id),
        )
        for job_id, job in sorted(mine.items(), key=lambda one: [int(n) for n in one[0].split("_")])
        if job_id not in shown
    ]
    for name in dict.fromkeys(place.name for place in others):
        places = (place for place in others if place.name == name)
        yield Group(f"{name} (no spec found)", tuple(job_data(place, queue) for place in places))


def _tasks(sweep: SweepData, mine: Mapping[str, Queued]) -> set[str]:
    """The ids of those jobs that are tasks of the sweep."""
    live = {state.job_id for state in sweep.all_states.values() if state.in_queue}
    return {
        job_id
        for job_id, job in mine.items()
        if job_id in live or any(is_of_submission(job, one) for one in sweep.sweep.submissions)
    }
