"""What the arguments of `cancel` and `logs` select: jobs, by specs, points and ids; or one log."""

import contextlib
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from clusterjobs.console import printable, say_on_stderr, table
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.runs.find_specs import specs_named, specs_of
from clusterjobs.runs.jobs.find import SpecJobs, spec_jobs
from clusterjobs.runs.jobs.folders import digest_of, point_folders, point_jobs
from clusterjobs.runs.jobs.logs_folder import logs_folder
from clusterjobs.runs.jobs.patterns import one_point, points_matching
from clusterjobs.runs.jobs.states import (
    MISSING,
    PENDING,
    RUNNING,
    STATES,
    PointState,
    SweepJobs,
    sweep_jobs,
)
from clusterjobs.runs.jobs.unstarted import Unstarted
from clusterjobs.slurm.queue import Queued, by_id, jobs_if_known

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
    """The jobs, the problems of arguments, and the specs without a job in the queue.

    `folders`: those with the records of what was submitted of the specs.
    """

    jobs: list[Chosen]
    problems: list[Problem]
    idle: list[str]
    folders: list[pathlib.Path]


def choose(
    arguments: Sequence[str], known: Sequence[Queued], settings: Sequence[str] = ()
) -> Choice:
    """The jobs that the arguments select. `known`: all jobs that Slurm knows. `settings`: of specs.

    A problem with one argument does not affect the others.
    """
    if settings and not any(map(_is_file, arguments)):
        raise one_problem("--set changes a spec, and none is named", hint=_HINT)
    choice = Choice([], [], [], [])
    for words in _groups(arguments):
        try:
            _add(choice, words, known, settings)
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


def _add(
    choice: Choice, words: Sequence[str], known: Sequence[Queued], settings: Sequence[str]
) -> None:
    first, *rest = words
    if not _is_file(first):
        if not _JOB_ID.fullmatch(first):
            raise one_problem(f"{first!r} is neither a job id nor a file", hint=_HINT)
        choice.jobs.append(_with_id(first, known))
        return
    loaded, sweep = sweep_jobs(pathlib.Path(first), settings)
    choice.folders.append(sweep.folder if sweep else logs_folder(loaded.spec.logs.path))
    if sweep:
        chosen = [*_of_sweep(sweep, rest, known)]
    else:
        found = spec_jobs(pathlib.Path(first), known, settings)
        chosen = [*_of_spec(first, found, rest, known)]
    choice.jobs.extend(chosen)
    if not rest and not chosen:
        choice.idle.append(first)


_HINT = "`123`, `123_4` (a task of an array), `exp.yaml` or `sweep.yaml 3,7-9`"


def _with_id(job_id: str, known: Sequence[Queued]) -> Chosen:
    """All tasks of an array, if it is the id of one: Slurm gives it to one of the tasks, too."""
    tasks = [job for job in known if job_id in (job.job_id, job.array_id, job.shown_id)]
    one = next((job for job in tasks if job.job_id == job_id != job.array_id), None)
    return Chosen(one.shown_id, (one,)) if one else Chosen(job_id, tuple(tasks))


def _of_spec(
    spec: str, found: SpecJobs, job_ids: Sequence[str], known: Sequence[Queued]
) -> Iterator[Chosen]:
    """The jobs with these ids, or all of this user."""
    own = {**found.ended, **found.queued}
    for job_id in job_ids:
        chosen = _with_id(job_id, known)
        tasks = tuple(job for job in chosen.tasks if job in own.values())
        if not tasks and (chosen.tasks or job_id not in found.folders):
            known_ids = ", ".join(found.folders)
            raise one_problem(f"no job {job_id} of {spec}", hint=f"its jobs: {known_ids}")
        yield chosen._replace(tasks=tasks)
    if not job_ids:
        live = [found.queued[one] for one in found.folders if one in found.queued]
        yield from (Chosen(job.shown_id, (job,)) for job in live if _is_own(job))


def _of_sweep(sweep: SweepJobs, words: Sequence[str], known: Sequence[Queued]) -> Iterator[Chosen]:
    """The jobs of these points and ids, or all of this user."""
    indexes = set(map(str, sweep.points.values()))
    job_ids = [word for word in words if _JOB_ID.fullmatch(word) and word not in indexes]
    states = sweep.states(known)
    hint = f"it is no point either: the points are 0 to {len(indexes) - 1}"
    with_ids = (_of_sweep_with_id(sweep, job_id, known) for job_id in job_ids)
    yield from (one._replace(hint=hint) for one in with_ids)
    patterns = [word for word in words if word not in job_ids]
    if job_ids and not patterns:
        return
    chosen = set(points_matching(patterns or ["*"], sweep.points))
    for job, points in _running_in(states, known):
        if not chosen.intersection(points) or not (patterns or _is_own(job)):
            continue
        if others := [name for name in points if name not in chosen]:
            raise one_problem(
                f"job {job.shown_id} runs {', '.join(sorted(chosen.intersection(points)))}, and on "
                f"the same node also {', '.join(others)}",
                hint="a job is cancelled as a whole: name all of its points",
            )
        yield Chosen(job.shown_id, (job,), tuple(points))
    for name in states if patterns else ():
        if name in chosen and states[name].state not in (PENDING, RUNNING):
            yield Chosen("", (), (name,), states[name].state)


def _of_sweep_with_id(sweep: SweepJobs, job_id: str, known: Sequence[Queued]) -> Chosen:
    """The job with this id. Raises InputError if it is another one's: a wrong index is no id."""
    chosen = _with_id(job_id, known)
    tasks = tuple(filter(sweep.ownership(), chosen.tasks))
    if chosen.tasks and not tasks:
        raise one_problem(
            f"{job_id} is no point and no job of {sweep.spec}",
            hint=f"to cancel job {job_id}: clusterjobs cancel {job_id}",
        )
    return chosen._replace(tasks=tasks)


def _running_in(
    states: dict[str, PointState], known: Sequence[Queued]
) -> Iterator[tuple[Queued, list[str]]]:
    """Each job in the queue with its points: several, if they are packed on one node."""
    queued = by_id(job for job in known if not job.has_ended)
    points: dict[str, list[str]] = {}
    for name, state in states.items():
        if state.in_queue and state.state in (PENDING, RUNNING):
            points.setdefault(state.job_id, []).append(name)
    yield from ((queued[job_id], names) for job_id, names in points.items())


def _is_own(job: Queued) -> bool:
    return job.user_id == os.getuid()


# ------------------------------------------------------------------ the spec of a job

NO_SPEC = "the spec of job {} is not in this folder, nor where the job was submitted"


def spec_of_job(job_id: str, jobs: Sequence[Queued] | None) -> pathlib.Path | None:
    """The spec whose job has this id: a file where the job was submitted, or in this folder.

    `jobs`: what Slurm knows; None without Slurm.
    """
    tasks = _with_id(job_id, jobs or ()).tasks
    for file in dict.fromkeys([*specs_of(tasks), *specs_named(pathlib.Path())]):
        with contextlib.suppress(InputError):  # a spec that is wrong has no jobs
            _, sweep = sweep_jobs(file)
            if sweep:
                of_point = sweep.point_with_job(job_id, sweep.states(jobs))
                is_own = of_point is not None or any(map(sweep.ownership(), tasks))
            else:
                found = spec_jobs(file, jobs)
                is_own = job_id in found.folders or any(map(found.owns, tasks))
            if is_own:
                return file
    return None


# ------------------------------------------------------------------ log choice
# Which job's log `clusterjobs logs SPEC [POINT|JOB_ID]` prints.


_MOST_POINTS = 20  # in a message


class ChosenLog(NamedTuple):
    """A job with a folder `<base>/<own id>`. `words`: the arguments that select it in `spec`.

    `ranks_per_node`: the spec's. `owns`: whether a job of Slurm is one of the spec. `jobs`: those
    that are, None without Slurm. `unstarted`: for a job that ended before it had a folder.
    """

    job_id: str
    base: pathlib.Path
    words: str
    ranks_per_node: int | None
    owns: Callable[[Queued], bool]
    jobs: tuple[Queued, ...] | None
    spec: pathlib.Path
    unstarted: Unstarted | None = None


def chosen_log(target: pathlib.Path, which: str | None, settings: Sequence[str] = ()) -> ChosenLog:
    """The log of a job of the spec, by a point or a job's id. Raises InputError.

    Without `which`, the log of the newest job; an error for a sweep with several points. `target`:
    the spec, or a job id alone, whose spec is then looked for.
    """
    jobs, spec = jobs_if_known(say_on_stderr), target
    if which is None and _JOB_ID.fullmatch(str(target)) and not target.exists():
        which = str(target)
        if not (its_spec := spec_of_job(which, jobs)):
            hint = f"name it: clusterjobs logs exp.yaml {which}"
            raise one_problem(NO_SPEC.format(which), hint=hint)
        spec = its_spec
    loaded, sweep = sweep_jobs(spec, settings)
    per_node = loaded.spec.ranks_per_node
    if sweep:
        job_id, base = _log_of_sweep(sweep, which, sweep.states(jobs))
        owns = sweep.ownership()
        own = None if jobs is None else tuple(filter(owns, jobs))
        words = f"{spec} {which}"
        return ChosenLog(_lasting(job_id, own), base, words, per_node, owns, own, spec)
    found = spec_jobs(spec, jobs, settings)
    own = None if jobs is None else tuple(filter(found.owns, jobs))
    same = (job.job_id for job in own or () if job.shown_id == which and job.state != "PENDING")
    job_id = found.chosen(next(same, which))
    lasting, unstarted = _lasting(job_id, own), found.unstarted.get(job_id)
    words = f"{spec} {job_id}"
    return ChosenLog(lasting, found.logs, words, per_node, found.owns, own, spec, unstarted)


def _lasting(job_id: str, jobs: Sequence[Queued] | None) -> str:
    """The job's own id; a pending task has the id of its array."""
    job = by_id(job for job in jobs or () if not job.has_ended).get(job_id)
    return job.shown_id if job and job.state == "PENDING" else job_id


def _log_of_sweep(
    sweep: SweepJobs, which: str | None, states: dict[str, PointState]
) -> tuple[str, pathlib.Path]:
    """The id and the base of the newest job of a point."""
    name = _point(sweep, which, states)
    state, folder = states[name], states[name].folder
    if state.state == MISSING or not state.job_id:
        raise one_problem(
            f"point {name} was never submitted",
            hint=f"clusterjobs submit {sweep.spec} --points {sweep.points[name]}",
        )
    for job in point_jobs(point_folders(sweep.folder).get(digest_of(name), ())) if which else ():
        if job.name == which:
            return which, job.parent  # maybe an earlier job of the point
    is_its_folder = folder is not None and folder.name == state.job_id
    return state.job_id, folder.parent if folder and is_its_folder else sweep.folder / name


def _point(sweep: SweepJobs, which: str | None, states: dict[str, PointState]) -> str:
    if which is None:
        if len(sweep.points) == 1:
            return next(iter(sweep.points))
        raise NoPointError(sweep, states)
    is_index = which in map(str, sweep.points.values())
    if (
        not is_index
        and which.replace("_", "").isdecimal()
        and (found := sweep.point_with_job(which, states))
    ):
        return found
    return one_point(which, sweep.points)


class NoPointError(InputError):
    """A sweep without a point. `table`: its points, running ones first, then failed ones."""

    def __init__(self, sweep: SweepJobs, states: dict[str, PointState]) -> None:
        names = sorted(states, key=lambda name: _ORDER.index(states[name].state))
        rows = [(str(sweep.points[name]), printable(name), states[name].state) for name in names]
        more = f"\n... and {len(rows) - _MOST_POINTS} more" if len(rows) > _MOST_POINTS else ""
        self.table = table(rows[:_MOST_POINTS]) + more
        what = f"{sweep.spec} is a sweep of {len(rows)} points: say which one"
        super().__init__([Problem(what, hint=f"clusterjobs logs {sweep.spec} {rows[0][0]}")])


_FIRST = ("running", "failed", "lost", "pending", "cancelled")
_ORDER = (*_FIRST, *(state for state in STATES if state not in _FIRST))
