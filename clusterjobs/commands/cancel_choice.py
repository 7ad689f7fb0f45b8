"""Selects the jobs for `clusterjobs cancel [SPEC [POINTS...]|JOB_ID]...`.

It reads specs and folders; it must not cancel, print, or ask Slurm.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from clusterjobs.commands.job_folders import spec_jobs
from clusterjobs.commands.sweeps.jobs import SweepJobs, sweep_jobs
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.jobs.sweeps import PENDING, RUNNING, PointState
from clusterjobs.slurm.queue import Queued, by_id
from clusterjobs.spec.point_patterns import points_matching

_JOB_ID = re.compile("[0-9]+(_[0-9]+)?")


class Chosen(NamedTuple):
    """A job to cancel. `job_id`: as scancel takes it, an array's own id for all its tasks.

    `tasks`: its tasks that Slurm knows. `points`: those that run in it.
    `state`: of a point that is not in the queue. `hint`: if Slurm does not know the job.
    """

    job_id: str
    tasks: tuple[Queued, ...] = ()
    points: tuple[str, ...] = ()
    state: str = ""
    hint: str = ""

    @property
    def live(self) -> tuple[Queued, ...]:
        """The tasks that have not ended."""
        return tuple(job for job in self.tasks if not job.has_ended)


class Choice(NamedTuple):
    """The jobs, the problems of arguments, and the specs without a job in the queue."""

    jobs: list[Chosen]
    problems: list[Problem]
    idle: list[str]


def choose(arguments: Sequence[str], known: Sequence[Queued]) -> Choice:
    """The jobs that the arguments select. `known`: all jobs that Slurm knows.

    A problem with one argument does not affect the others.
    """
    choice = Choice([], [], [])
    for words in _groups(arguments):
        try:
            _add(choice, words, known)
        except InputError as error:
            choice.problems.extend(error.problems)
    jobs = {one.job_id or one.points: one for one in choice.jobs}
    return choice._replace(jobs=list(jobs.values()))


def _groups(arguments: Iterable[str]) -> Iterator[list[str]]:
    """A spec with the points and ids that follow it, or a word before the first spec."""
    group: list[str] = []
    for word in arguments:
        if _is_file(word):
            if group:
                yield group
            group = [word]
        elif group:
            group.append(word)
        else:
            yield [word]
    if group:
        yield group


def _is_file(word: str) -> bool:
    """Whether it names a spec. A file named as a job id does not: `./1234` does."""
    return word.endswith((".yaml", ".yml")) or (
        not _JOB_ID.fullmatch(word) and pathlib.Path(word).is_file()
    )


def _add(choice: Choice, words: Sequence[str], known: Sequence[Queued]) -> None:
    first, *rest = words
    if not _is_file(first):
        if not _JOB_ID.fullmatch(first):
            raise one_problem(f"{first!r} is neither a job id nor a file", hint=_HINT)
        choice.jobs.append(_with_id(first, known))
        return
    sweep = sweep_jobs(pathlib.Path(first))[1]
    chosen = [*(_of_sweep(sweep, rest, known) if sweep else _of_spec(first, rest, known))]
    choice.jobs.extend(chosen)
    if not rest and not chosen:
        choice.idle.append(first)


_HINT = "`123`, `123_4` (a task of an array), `exp.yaml` or `sweep.yaml 3,7-9`"


def _with_id(job_id: str, known: Sequence[Queued]) -> Chosen:
    """All tasks of an array, if it is the id of one: Slurm gives it to one of the tasks, too."""
    tasks = [job for job in known if job_id in (job.job_id, job.array_id, job.shown_id)]
    one = next((job for job in tasks if job.job_id == job_id != job.array_id), None)
    return Chosen(one.shown_id, (one,)) if one else Chosen(job_id, tuple(tasks))


def _of_spec(spec: str, job_ids: Sequence[str], known: Sequence[Queued]) -> Iterator[Chosen]:
    """The jobs with these ids, or all of this user."""
    queued = by_id(job for job in known if not job.has_ended)
    jobs = spec_jobs(pathlib.Path(spec), queued).folders
    for job_id in job_ids:
        chosen = _with_id(job_id, known)
        if job_id not in jobs and not any(job.job_id in jobs for job in chosen.tasks):
            raise one_problem(f"no job {job_id} of {spec}", hint="its jobs: " + ", ".join(jobs))
        yield chosen
    if not job_ids:
        own = [queued[one] for one in jobs if one in queued and _is_own(queued[one])]
        yield from (Chosen(job.shown_id, (job,)) for job in own)


def _of_sweep(sweep: SweepJobs, words: Sequence[str], known: Sequence[Queued]) -> Iterator[Chosen]:
    """The jobs of these points and ids, or all of this user."""
    indexes = set(map(str, sweep.points.values()))
    job_ids = [word for word in words if _JOB_ID.fullmatch(word) and word not in indexes]
    states = sweep.states(known)
    hint = f"it is no point either: the points are 0 to {len(indexes) - 1}"
    with_ids = (_of_sweep_with_id(sweep, states, job_id, known) for job_id in job_ids)
    yield from (one._replace(hint=hint) for one in with_ids)
    patterns = [word for word in words if word not in job_ids]
    if job_ids and not patterns:
        return
    chosen = set(points_matching(patterns or ["*"], sweep.points))
    for job, points in _running_in(states, known):
        if not chosen.intersection(points) or not (patterns or _is_own(job)):
            continue
        if others := [name for name in points if name not in chosen]:
            raise _shared(job, chosen.intersection(points), others)
        yield Chosen(job.shown_id, (job,), tuple(points))
    for name in states if patterns else ():
        if name in chosen and states[name].state not in (PENDING, RUNNING):
            yield Chosen("", (), (name,), states[name].state)


def _of_sweep_with_id(
    sweep: SweepJobs, states: dict[str, PointState], job_id: str, known: Sequence[Queued]
) -> Chosen:
    """The job with this id. Raises InputError if it is another one's: a wrong index is no id."""
    chosen = _with_id(job_id, known)
    own = {job.job_id for job, _ in _running_in(states, known)}
    is_own = any(job.job_id in own or job.array_id in sweep.arrays for job in chosen.tasks)
    if chosen.tasks and not is_own and sweep.point_with_job(job_id, states) is None:
        raise one_problem(
            f"{job_id} is no point and no job of {sweep.spec}",
            hint=f"to cancel job {job_id}: clusterjobs cancel {job_id}",
        )
    return chosen


def _running_in(
    states: dict[str, PointState], known: Sequence[Queued]
) -> Iterator[tuple[Queued, list[str]]]:
    """Each job in the queue with its points: several, if they are packed on one node."""
    queued = by_id(job for job in known if not job.has_ended)
    points: dict[str, list[str]] = {}
    for name, state in states.items():
        if state.state in (PENDING, RUNNING) and state.job_id in queued:
            points.setdefault(state.job_id, []).append(name)
    yield from ((queued[job_id], names) for job_id, names in points.items())


def _shared(job: Queued, chosen: Iterable[str], others: Sequence[str]) -> InputError:
    return one_problem(
        f"job {job.shown_id} runs {', '.join(sorted(chosen))}, and on the same node also "
        f"{', '.join(others)}",
        hint="a job is cancelled as a whole: name all of its points",
    )


def _is_own(job: Queued) -> bool:
    return job.user_id == os.getuid()
