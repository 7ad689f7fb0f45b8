"""What the arguments of `report` name: specs, jobs, folders of jobs, and logs."""

from __future__ import annotations

import collections
import contextlib
import itertools
import pathlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from clusterjobs.errors import InputError, one_problem
from clusterjobs.report.compare import first_names
from clusterjobs.runs.find_specs import find_specs
from clusterjobs.runs.folders import digest_of, job_folders, point_folders, point_jobs
from clusterjobs.runs.job_folders import spec_jobs
from clusterjobs.runs.lab_paths import named_here
from clusterjobs.runs.states import SweepJobs, sweep_jobs
from clusterjobs.slurm.queue import by_id, known_jobs

STANDARD_INPUT = "-"
_SPECS = (".yaml", ".yml")
_LOG = "job.log"
_MOST_SPECS = 200  # that are searched for a job


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


def find_targets(words: Sequence[str], spec: pathlib.Path | None = None) -> Targets:
    """The runs that the words name. A number is a job id. Raises InputError if there is none.

    `spec`: that of logs and jobs whose spec is not known otherwise.
    """
    ids = [word for word in words if word.isdecimal() and not pathlib.Path(word).exists()]
    others = [word for word in words if word not in ids]
    specs = [pathlib.Path(word) for word in others if pathlib.Path(word).suffix in _SPECS]
    found: list[Target] = []
    notes: list[str] = []
    for word in others:
        path = pathlib.Path(word)
        if word == STANDARD_INPUT:
            found.append(Target(None))
        elif path.suffix in _SPECS:
            found += _of_spec(path, ids, notes)
        else:
            found += _of_path(named_here(path))
    if ids and not specs:
        found += map(_of_job, ids)
    return Targets(_told_apart([replace(one, spec=one.spec or spec) for one in found]), notes)


def _told_apart(found: Sequence[Target]) -> list[Target]:
    """Logs of one file name are called by their paths; jobs have their ids."""
    bare = [one.log for one in found if one.log and not one.folder]
    count = collections.Counter(log.name for log in bare)
    return [
        replace(one, name=str(one.log) if count[one.log.name] > 1 else one.log.name)
        if one.log and not one.folder
        else one
        for one in found
    ]


def _of_spec(spec: pathlib.Path, ids: Sequence[str], notes: list[str]) -> Iterator[Target]:
    """The jobs with these ids, or the newest one; of a sweep the newest of each point."""
    _, sweep = sweep_jobs(spec)
    if sweep:
        yield from _of_sweep(spec, sweep, ids, notes)
        return
    jobs = known_jobs()
    queued = None if jobs is None else by_id(job for job in jobs if not job.has_ended)
    found = spec_jobs(spec, queued)
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
    """A log, the folder of a job, or a folder of jobs."""
    if not path.is_dir():
        in_folder = path.name == _LOG and (path.parent / "plan.json").is_file()
        yield Target(path, path.parent.absolute() if in_folder else None)
    elif (path / _LOG).exists():
        yield Target(path / _LOG, path.absolute())
    else:
        jobs = [one.path for one in job_folders(path) if (one.path / _LOG).exists()]
        if not jobs:
            raise one_problem(
                f"{path} has no logs of jobs",
                hint="name a spec, a log, the folder of a job, or a `logs` folder",
            )
        yield from (Target(job / _LOG, job) for job in jobs)


def _of_job(job_id: str) -> Target:
    """A job whose spec was not named: the spec is looked for here and where it was submitted."""
    jobs = known_jobs() or ()
    submitted = [job.workdir for job in jobs if job.job_id == job_id and job.workdir]
    bases = [pathlib.Path(), *map(pathlib.Path, submitted)]
    for base in bases:
        folder = named_here(base / "logs" / job_id)
        if (folder / _LOG).exists():
            return Target(folder / _LOG, folder.absolute(), _spec_in(base, folder))
    for spec in itertools.islice(_specs(bases), _MOST_SPECS):
        with contextlib.suppress(InputError):  # a spec that is wrong, or of other jobs
            return next(_of_spec(spec, [job_id], []))
    raise _unknown_job(job_id)


def _specs(folders: Sequence[pathlib.Path]) -> Iterator[pathlib.Path]:
    existing = [folder for folder in folders if folder.is_dir()]
    with contextlib.suppress(InputError):
        yield from map(pathlib.Path, find_specs(existing).specs)


def _spec_in(base: pathlib.Path, folder: pathlib.Path) -> pathlib.Path | None:
    """The spec that the job was rendered from, if it lies where the job was submitted."""
    found = next((one for one in job_folders(folder.parent) if one.path == folder), None)
    spec = found.plan.get("spec") if found else None
    name = spec.get("file") if isinstance(spec, dict) else None
    if not isinstance(name, str) or pathlib.PurePath(name).name != name:
        return None
    return base / name if (base / name).is_file() else None


def _unknown_job(job_id: str) -> InputError:
    return one_problem(
        f"no log of job {job_id} is found: not in logs/{job_id}, nor by a spec in this folder",
        hint=f"name its spec, too: clusterjobs report exp.yaml {job_id}; or its log",
    )
