"""Submits the missing jobs that a spec needs, in order, with Slurm's dependencies."""

import contextlib
import pathlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from clusterjobs.console import TERMINAL, Messages, Say
from clusterjobs.errors import InputError, Problem, counted, in_order, one_problem
from clusterjobs.runs.jobs.folders import NeededJob, digest_of
from clusterjobs.runs.jobs.logs_folder import make_logs_folder
from clusterjobs.runs.jobs.states import COMPLETED, PENDING, PointState, counts_in_words
from clusterjobs.runs.load import load
from clusterjobs.runs.run import Run
from clusterjobs.runs.submit.lock import submit_lock
from clusterjobs.runs.submit.needed_jobs import (
    KnownJobs,
    Task,
    WaitsFor,
    ids_to_wait_for,
    known_jobs_of,
    needed_job_id,
    never_met,
    newest_tasks,
    read_own_submissions,
    record_folder,
    to_run_first,
)
from clusterjobs.runs.submit.plain import submit_plain
from clusterjobs.runs.submit.points import SubmitOptions, submit_sweep
from clusterjobs.runs.submit.report import NeedRow, row_of_others, row_to_submit
from clusterjobs.runs.submit.sbatch import fitted_to_slurm
from clusterjobs.runs.write import write_outputs
from clusterjobs.slurm.queue import by_id, known_jobs, queued_jobs
from clusterjobs.spec.keys.sweep import Point
from clusterjobs.spec.need_graph import NeedGraph, NeedingSpec, SpecNeed
from clusterjobs.spec.need_references import KEY
from clusterjobs.yaml.document import dotted

# ------------------------------------------------------------------ needed spec
# Renders and submits one spec that another one needs, with or without a sweep.


class Done(NamedTuple):
    """The states of a spec's points after its submission, its new jobs, and the reason."""

    states: Mapping[str, PointState]
    job_ids: tuple[str, ...]
    why: str


class NeededRun(Protocol):
    """A spec that is planned and rendered, so that only sbatch can refuse it."""

    @property
    def spec(self) -> NeedingSpec: ...

    @property
    def outputs(self) -> Mapping[str, str]: ...

    def submit(self, waits: tuple[WaitsFor, ...], known: KnownJobs, say: Say) -> Done: ...


def prepared(
    specs: Sequence[tuple[NeedingSpec, tuple[str, ...]]], messages: Messages
) -> dict[str, NeededRun]:
    """The specs with the names of the points to submit, rendered, by their identities.

    Raises InputError with the problems of all of them.
    """
    found: dict[str, _Plain | _Sweep] = {}
    problems: list[Problem] = []
    for spec, names in specs:
        try:
            run = load(pathlib.Path(spec.file))
            if run.sweep:
                found[spec.identity] = _Sweep(spec, fitted_to_slurm(run), names)
            else:
                found[spec.identity] = _Plain(spec, run)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(in_order(problems))
    for one in found.values():
        messages.show(tuple(_named(problem, one.spec.file) for problem in one.run.warnings))
    return dict(found)


def write(runs: Iterable[NeededRun], output: pathlib.Path, force: bool) -> None:
    """The outputs of each spec, in a folder with its name."""
    folders: set[str] = set()
    for one in runs:
        name = stem = pathlib.Path(one.spec.file).stem
        number = 1
        while name in folders:  # files of one name, in several folders
            number += 1
            name = f"{stem}-{number}"
        folders.add(name)
        write_outputs(output / name, one.outputs, force)


def _named(problem: Problem, file: str) -> Problem:
    """The problem with the file, if it has no place of its own: there are several specs."""
    return problem if problem.where else problem._replace(what=f"{file}: {problem.what}")


class _Plain:
    def __init__(self, spec: NeedingSpec, run: Run) -> None:
        self.spec, self.run, self.outputs = spec, run, run.outputs()

    def submit(self, waits: tuple[WaitsFor, ...], known: KnownJobs, say: Say) -> Done:
        """Submit it, unless another user has submitted it meanwhile."""
        before = known.states[""]
        with submit_lock(make_logs_folder(self.spec.loaded.spec), say, own=True) as record:
            submissions = read_own_submissions(self.spec)
            now = known_jobs_of(self.spec, submissions, queued_jobs() or {}).states[""]
            if now != before and (now.in_queue or now.state == COMPLETED):
                return Done({"": now}, (), f"another user submitted job {now.job_id} meanwhile")
            (wait,) = waits
            job = submit_plain(self.run, self.outputs["job.sh"], wait, record, say)
        if job.job_id is None:
            raise one_problem(f"{self.spec.file}: sbatch accepted the job but printed no job id")
        state = PointState(PENDING, "", str(job.job_id), in_queue=True)
        return Done({"": state}, (str(job.job_id),), before.why_submitted)


class _Sweep:
    def __init__(self, spec: NeedingSpec, run: Run, names: tuple[str, ...]) -> None:
        self.spec, self.run, self.names = spec, run, names
        self.outputs = run.outputs()

    def submit(self, waits: tuple[WaitsFor, ...], known: KnownJobs, say: Say) -> Done:
        """Submit the points, except those that another user has submitted meanwhile."""
        done = submit_sweep(self.run, SubmitOptions(patterns=self.names, waits=waits), say)
        states = dict(done.chosen.states)
        before = [known.states[name] for name in done.chosen.names]
        for job in done.jobs:
            for name, job_id in job.tasks.items():
                states[name] = PointState(PENDING, "", job_id, in_queue=True)
        ids = tuple(str(job.job_id) for job in done.jobs)
        points = f"{len(before)} of {len(states)} points"
        return Done(states, ids, f"{points}: {counts_in_words(before)}")


class Needs:
    """The specs that a spec needs, checked before anything is submitted."""

    def __init__(
        self, graph: NeedGraph, output: pathlib.Path, force: bool, messages: Messages
    ) -> None:
        """Raises InputError for what is wrong with any of the specs that have to be submitted."""
        self._graph, self._say = graph, messages.say
        self._known = _look(graph)
        self._wanted = _to_submit(graph, self._known)
        self._prepared = prepared(
            [(one, self._wanted[one.identity]) for one in self._needed() if self._runs(one)],
            messages,
        )
        self._output, self._force = output, force
        self.rows: list[NeedRow] = []

    def planned(self) -> list[NeedRow]:
        return [
            row_to_submit(one, self._known[one.identity], self._wanted[one.identity])
            if self._runs(one)
            else row_of_others(one, self._known[one.identity])
            for one in self._needed()
        ]

    def own_row(self) -> NeedRow:
        """The row of the spec itself, for a dry run: it comes after those that it needs."""
        file = self._graph.specs[self._graph.root].file
        return NeedRow(file, (), True, "the spec itself, after what it needs")

    def submit(self) -> tuple[WaitsFor, ...]:
        """Submit the missing jobs. Gives what the spec itself has to wait for, by groups of points.

        Raises InputError; a later `submit` goes on where this one ended.
        """
        write(self._prepared.values(), self._output, self._force)
        for one in self._needed():
            if self._runs(one):
                self._submit(one, self._prepared[one.identity])
            else:
                self.rows.append(row_of_others(one, self._known[one.identity]))
        return self._waits(self._graph.specs[self._graph.root])

    def _needed(self) -> Iterator[NeedingSpec]:
        """The specs that a job to be submitted needs, in order."""
        for one in self._graph.in_order():
            if one.identity != self._graph.root and one.identity in self._wanted:
                yield one

    def _runs(self, one: NeedingSpec) -> bool:
        return bool(self._wanted[one.identity])

    def _submit(self, one: NeedingSpec, run: NeededRun) -> None:
        with self.named_if_it_fails():
            done = run.submit(self._waits(one), self._known[one.identity], self._say)
        self._known[one.identity] = KnownJobs(done.states, read_own_submissions(one))
        said = (
            f"{one.file}: {'job' if len(done.job_ids) == 1 else 'jobs'} {', '.join(done.job_ids)}"
        )
        if done.job_ids:
            self._say(f"submitted {said}")
        there = tuple(dict.fromkeys(state.job_id for state in done.states.values()))
        ids = done.job_ids or there
        self.rows.append(NeedRow(one.file, ids, bool(done.job_ids), done.why))

    @contextlib.contextmanager
    def named_if_it_fails(self) -> Iterator[None]:
        """Report what was submitted before an error or Ctrl-C in the block."""
        try:
            yield
        except InputError as error:
            raise InputError([*error.problems, *self._submitted_before()]) from None
        except KeyboardInterrupt:
            self._say("the submitted jobs will run, and the next submit continues from there")
            raise

    def _submitted_before(self) -> Iterator[Problem]:
        ids = [job_id for row in self.rows if row.submitted for job_id in row.job_ids]
        if ids:
            files = ", ".join(row.spec for row in self.rows if row.submitted)
            yield Problem(
                f"submitted before that: {files} ({counted(len(ids), 'job')}: {', '.join(ids)})",
                hint="these jobs will run, and the next submit continues from there; "
                f"to cancel them: clusterjobs cancel {' '.join(ids)}",
            )

    # ------------------------------------------------------------------ dependencies

    def _waits(self, one: NeedingSpec) -> tuple[WaitsFor, ...]:
        """The dependencies of a spec's jobs: the same for all, or one for each point."""
        common: list[NeededJob] = []
        each: list[SpecNeed] = []
        for index, need in enumerate(one.needs):
            if need.target is None:
                common += needed_job_id(one, need, index)
            elif need.need.on == "each":
                each.append(need)
            else:
                common += self._ids(need, self._known[need.target])
        return tuple(self._groups(one, common, each)) if each else (WaitsFor(tuple(common)),)

    def _ids(self, need: SpecNeed, known: KnownJobs) -> Iterator[NeededJob]:
        assert need.target
        spec = self._graph.specs[need.target]
        folder = str(record_folder(spec).absolute())
        for job_id in ids_to_wait_for(need.need.on, known.states, known.submissions):
            yield NeededJob(spec.file, job_id, need.need.on, folder)

    def _groups(
        self, one: NeedingSpec, common: Sequence[NeededJob], each: Sequence[SpecNeed]
    ) -> Iterator[WaitsFor]:
        """The points that wait for tasks of the same arrays; one that waits for a job alone."""
        groups: dict[tuple[NeededJob, ...], list[str]] = defaultdict(list)
        same = [self._same_points(need) for need in each]
        for spec in one.points:
            assert spec.point
            found = (jobs(spec.point) for jobs in same)
            groups[tuple(filter(None, found))].append(spec.point.name)
        for needed, names in groups.items():
            yield WaitsFor((*common, *needed), frozenset(names))

    def _same_points(self, need: SpecNeed) -> Callable[[Point], NeededJob | None]:
        """Finds the job of the same point there; None if it has completed."""
        assert need.target
        spec, known = self._graph.specs[need.target], self._known[need.target]
        states = {digest_of(name): state for name, state in known.states.items()}
        tasks, folder = newest_tasks(known.submissions), str(record_folder(spec).absolute())

        def job(point: Point) -> NeededJob | None:
            digest = digest_of(point.name)
            if states[digest].state == COMPLETED:
                return None
            task = tasks.get(digest, Task(states[digest].job_id))
            is_same = task.task == str(point.index) and not spec.is_packed
            on, job_id = ("each", task.job_id) if is_same else ("success", task.shown)
            return NeededJob(spec.file, job_id, on, folder)

        return job


def needs_of(
    run: Run,
    output: pathlib.Path,
    force: bool,
    sbatch_options: tuple[str, ...],
    messages: Messages = TERMINAL,
) -> Needs | None:
    """The checked needs of the spec; None if it has none. Raises InputError."""
    if run.needs is None:
        return None
    for option in sbatch_options:
        if option.startswith(("--dependency", "-d")):
            raise one_problem(
                f"{option} cannot be given for a spec that has needs",
                hint="write it as needs: [{job: 4711}], or submit with --no-needs",
            )
    run.outputs()  # what is wrong with the spec itself is known before anything is submitted
    return Needs(run.needs, output, force, messages)


# ------------------------------------------------------------------ what is there, what is missing


def _look(graph: NeedGraph) -> dict[str, KnownJobs]:
    """The state of each spec, from one call of squeue."""
    specs = [one for one in graph.in_order() if one.identity != graph.root]
    submissions = [read_own_submissions(one) for one in specs]
    jobs = known_jobs()
    if jobs is None:
        raise one_problem(
            "there is no squeue here, so the state of what is needed is unknown",
            hint="submit from the cluster's head node, or try the lab: clusterjobs lab up small",
        )
    queued = by_id(one for one in jobs if not one.has_ended)
    found = zip(specs, submissions, strict=True)
    return {one.identity: known_jobs_of(one, done, queued) for one, done in found}


def _to_submit(graph: NeedGraph, known: Mapping[str, KnownJobs]) -> dict[str, tuple[str, ...]]:
    """Identity -> the points to submit, of each spec that is asked for; none if it is there.

    What a spec needs is only asked for if the spec itself has to be submitted. Raises InputError.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    problems: list[Problem] = []
    for one in reversed(graph.in_order()):
        if one.identity != graph.root and not wanted.get(one.identity):
            continue
        for index, need in enumerate(one.needs):
            if need.target is None:
                problems += _problems_of_job(one, need, index)
                continue
            states = known[need.target].states
            if never_met(need.need.on, states):
                what = f"{need.need.spec} has completed, and this job waits for its failure"
                hint = "remove this need, or write on: end"
                problems.append(Problem(what, need.where, dotted((KEY, index)), hint))
            names = (*wanted.get(need.target, ()), *to_run_first(need.need.on, states))
            wanted[need.target] = tuple(dict.fromkeys(names))
    if problems:
        raise InputError(in_order(problems))
    return wanted


def _problems_of_job(one: NeedingSpec, need: SpecNeed, index: int) -> tuple[Problem, ...]:
    try:
        list(needed_job_id(one, need, index))
    except InputError as error:
        return error.problems
    return ()
