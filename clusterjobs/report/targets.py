"""What the arguments of `report` name: specs, jobs, folders of jobs, and logs."""

import collections
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from clusterjobs.console import say_on_stderr
from clusterjobs.errors import one_problem
from clusterjobs.plugins import named_here
from clusterjobs.report.compare import first_names
from clusterjobs.report.logs.metric_files import metric_files
from clusterjobs.runs.jobs.choose import NO_SPEC, spec_of_job
from clusterjobs.runs.jobs.find import spec_jobs
from clusterjobs.runs.jobs.folders import digest_of, job_folders, point_folders, point_jobs
from clusterjobs.runs.jobs.states import SweepJobs, sweep_jobs
from clusterjobs.slurm.queue import jobs_if_known

STANDARD_INPUT = "-"
_SPECS = (".yaml", ".yml")
_LOG = "job.log"


@dataclass(frozen=True)
class Target:
    """One run: its log (None: standard input), the job's folder, and its spec, if it is known.

    `name`: of a log that is in no job's folder.
    """

    log: pathlib.Path | None
    folder: pathlib.Path | None = None
    spec: pathlib.Path | None = None
    point: str | None = None
    name: str = "standard input"


class Targets(NamedTuple):
    """The runs that are named, and sentences about those that have no log yet."""

    runs: list[Target]
    notes: list[str]


def find_targets(arguments: Sequence[str], spec: pathlib.Path | None = None) -> Targets:
    """The runs that the arguments name. A number is a job id. Raises InputError if there is none.

    `spec`: that of logs and jobs whose spec is not known otherwise.
    """
    ids = [one for one in arguments if one.isdecimal() and not pathlib.Path(one).exists()]
    others = [one for one in arguments if one not in ids]
    found: list[Target] = []
    notes: list[str] = []
    for one in others:
        path = pathlib.Path(one)
        if one == STANDARD_INPUT:
            found.append(Target(None))
        elif path.suffix in _SPECS:
            found += _of_spec(path, ids, notes)
        else:
            found += _of_path(named_here(path))
    if ids and not any(pathlib.Path(one).suffix in _SPECS for one in others):
        found += map(_of_job, ids)
    # Logs of one file name are called by their paths; jobs have their ids.
    names = collections.Counter(one.log.name for one in found if one.log and not one.folder)
    targets = []
    for target in found:
        name = target.name
        if target.log and not target.folder:
            name = str(target.log) if names[target.log.name] > 1 else target.log.name
        targets.append(replace(target, spec=target.spec or spec, name=name))
    return Targets(targets, notes)


def _of_spec(spec: pathlib.Path, ids: Sequence[str], notes: list[str]) -> Iterator[Target]:
    """The jobs with these ids, or the newest one; of a sweep the newest of each point."""
    _, sweep = sweep_jobs(spec)
    if sweep:
        yield from _of_sweep(spec, sweep, ids, notes)
        return
    found = spec_jobs(spec, jobs_if_known(say_on_stderr))
    started = [one for one, folder in found.folders.items() if (folder / _LOG).exists()]
    for job_id in ids or started[-1:] or [found.chosen(None)]:
        folder = found.folders[found.chosen(job_id)]
        if not (folder / _LOG).exists():
            raise one_problem(
                f"job {job_id} has no log yet", hint=f"see why: clusterjobs status {spec} {job_id}"
            )
        yield Target(folder / _LOG, folder, spec)


def _of_sweep(
    spec: pathlib.Path, sweep: SweepJobs, ids: Sequence[str], notes: list[str]
) -> Iterator[Target]:
    folders = point_folders(sweep.folder)
    found = [
        Target(job / _LOG, job, spec, name)
        for name in sweep.points
        for job in _chosen(point_jobs(folders.get(digest_of(name), ())), ids)
    ]
    if not found:
        which = f"job {ids[0]}" if ids else "no point"
        what = "is no job of this sweep" if ids else "has a log"
        raise one_problem(
            f"{spec}: {which} {what}: {sweep.folder}", hint=f"clusterjobs status {spec} --points"
        )
    with_log = {one.point for one in found}
    if not ids and (missing := [name for name in sweep.points if name not in with_log]):
        have = "has" if len(missing) == 1 else "have"
        notes.append(
            f"{spec}: {len(missing)} of {len(sweep.points)} points {have} no log yet: "
            f"{first_names(missing)}"
        )
    yield from found


def _chosen(jobs: Sequence[pathlib.Path], ids: Sequence[str]) -> Sequence[pathlib.Path]:
    with_logs = [job for job in jobs if (job / _LOG).exists()]
    return [job for job in with_logs if job.name in ids] if ids else with_logs[-1:]


def _of_path(path: pathlib.Path) -> Iterator[Target]:
    """A log, the folder of a job, a folder of jobs, or a folder with files of metrics."""
    if not path.is_dir():
        in_folder = path.name == _LOG and (path.parent / "plan.json").is_file()
        yield Target(path, path.parent.absolute() if in_folder else None)
    elif (path / _LOG).exists():
        yield Target(path / _LOG, path.absolute())
    else:
        jobs = [one.path for one in job_folders(path) if (one.path / _LOG).exists()]
        yield from (Target(job / _LOG, job) for job in jobs)
        metrics = [] if jobs else metric_files(path)
        yield from map(Target, metrics)
        if not jobs and not metrics:
            raise one_problem(
                f"{path} has no logs of jobs, and no metrics.csv or event files",
                hint="name a spec, a log, the folder of a job, or a `logs` folder",
            )


def _of_job(job_id: str) -> Target:
    """A job whose spec was not named: the spec is looked for here and where it was submitted."""
    jobs = jobs_if_known(say_on_stderr) or ()
    submitted = [job.workdir for job in jobs if job.job_id == job_id and job.workdir]
    bases = [pathlib.Path(), *map(pathlib.Path, submitted)]
    for base in bases:
        folder = named_here(base / "logs" / job_id)
        if (folder / _LOG).exists():
            return Target(folder / _LOG, folder.absolute(), _spec_in(base, folder))
    if spec := spec_of_job(job_id, jobs):
        return next(_of_spec(spec, [job_id], []))
    raise one_problem(
        NO_SPEC.format(job_id),
        hint=f"name it: clusterjobs report exp.yaml {job_id}; or name the job's log",
    )


def _spec_in(base: pathlib.Path, folder: pathlib.Path) -> pathlib.Path | None:
    """The spec that the job was rendered from, if it lies where the job was submitted."""
    found = next((one for one in job_folders(folder.parent) if one.path == folder), None)
    spec = found.plan.get("spec") if found else None
    name = spec.get("file") if isinstance(spec, dict) else None
    if not isinstance(name, str) or pathlib.PurePath(name).name != name:
        return None
    return base / name if (base / name).is_file() else None
