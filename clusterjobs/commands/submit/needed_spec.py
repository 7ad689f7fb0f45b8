"""Renders and submits one spec that another one needs, with or without a sweep."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from clusterjobs.commands.pipeline import Project, load
from clusterjobs.commands.show import show_problems
from clusterjobs.commands.submit.needed_states import KnownJobs, known_jobs_of, read_own_submissions
from clusterjobs.commands.submit.plain import Say, locked_record, submit_plain
from clusterjobs.commands.submit.points import SubmitOptions, submit_sweep
from clusterjobs.commands.submit.slurm_arrays import fitted_to_slurm
from clusterjobs.commands.sweeps.project import SweepProject
from clusterjobs.commands.write import write_outputs
from clusterjobs.errors import InputError, Problem, in_order, one_problem
from clusterjobs.jobs.needed_jobs import WaitsFor
from clusterjobs.jobs.resume import counts_in_words
from clusterjobs.jobs.sweeps import COMPLETED, PENDING, PointState
from clusterjobs.slurm.queue import queued_jobs
from clusterjobs.spec.need_graph import NeedingSpec


class Done(NamedTuple):
    """The states of a spec's points after its submission, its new jobs, and the reason."""

    states: Mapping[str, PointState]
    job_ids: tuple[str, ...]
    why: str


class NeededProject(Protocol):
    """A spec that is planned and rendered, so that only sbatch can refuse it."""

    def submit(self, waits: tuple[WaitsFor, ...], known: KnownJobs, say: Say) -> Done: ...


def prepared(
    specs: Sequence[tuple[NeedingSpec, tuple[str, ...]]], output: pathlib.Path, force: bool
) -> dict[str, NeededProject]:
    """The specs with the names of the points to submit, rendered, by their identities.

    Raises InputError with the problems of all of them, before anything is written.
    """
    found: dict[str, _Plain | _Sweep] = {}
    problems: list[Problem] = []
    for spec, names in specs:
        try:
            project = load(pathlib.Path(spec.file))
            if isinstance(project, Project):
                found[spec.identity] = _Plain(spec, project)
            else:
                found[spec.identity] = _Sweep(spec, fitted_to_slurm(project), names)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(in_order(problems))
    folders: set[str] = set()
    for one in found.values():
        show_problems(one.project.warnings)
        name = stem = pathlib.Path(one.spec.file).stem
        number = 1
        while name in folders:  # files of one name, in several folders
            number += 1
            name = f"{stem}-{number}"
        folders.add(name)
        write_outputs(output / name, one.outputs, force)
    return dict(found)


class _Plain:
    def __init__(self, spec: NeedingSpec, project: Project) -> None:
        self.spec, self.project, self.outputs = spec, project, project.outputs()

    def submit(self, waits: tuple[WaitsFor, ...], known: KnownJobs, say: Say) -> Done:
        """Submit it, unless another user has submitted it meanwhile."""
        project, before = self.project, known.states[""]
        with locked_record(self.spec.spec.experiment, say) as record:
            submissions = read_own_submissions(self.spec)
            now = known_jobs_of(self.spec, submissions, queued_jobs() or {}).states[""]
            if now != before and (now.in_queue or now.state == COMPLETED):
                return Done({"": now}, (), f"another user submitted job {now.job_id} meanwhile")
            script = self.outputs["job.sh"]
            (wait,) = waits
            job = submit_plain(project.plan, project.inputs, script, wait, record, say)
        if job.job_id is None:
            raise one_problem(f"{self.spec.file}: sbatch accepted the job but printed no job id")
        state = PointState(PENDING, "", str(job.job_id), in_queue=True)
        why = before.state if not before.reason else f"{before.state} ({before.reason})"
        return Done({"": state}, (str(job.job_id),), f"it was {why}")


class _Sweep:
    def __init__(self, spec: NeedingSpec, project: SweepProject, names: tuple[str, ...]) -> None:
        self.spec, self.project, self.names = spec, project, names
        self.outputs = project.outputs()

    def submit(self, waits: tuple[WaitsFor, ...], known: KnownJobs, say: Say) -> Done:
        """Submit the points, except those that another user has submitted meanwhile."""
        done = submit_sweep(self.project, SubmitOptions(patterns=self.names, waits=waits), say)
        states = dict(done.chosen.states)
        before = [known.states[name] for name in done.chosen.names]
        for job in done.jobs:
            for name, job_id in job.tasks.items():
                states[name] = PointState(PENDING, "", job_id, in_queue=True)
        ids = tuple(str(job.job_id) for job in done.jobs)
        points = f"{len(before)} of {len(states)} points"
        return Done(states, ids, f"{points}: {counts_in_words(before)}")
