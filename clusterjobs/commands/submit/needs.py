"""Submits the missing jobs that a spec needs, in order, with Slurm's dependencies.

It knows the order and what is waited for; it must not know how one spec is submitted.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from clusterjobs.commands.submit.needed_job_ids import needed_job_id
from clusterjobs.commands.submit.needed_spec import NeededProject, prepared
from clusterjobs.commands.submit.needed_states import (
    KnownJobs,
    known_jobs_of,
    read_own_submissions,
    record_folder,
)
from clusterjobs.commands.submit.needs_report import NeedRow, row_of_others, row_to_submit
from clusterjobs.commands.submit.plain import Say
from clusterjobs.counted import counted
from clusterjobs.errors import InputError, Problem, in_order, one_problem
from clusterjobs.jobs.needed_jobs import (
    Task,
    WaitsFor,
    ids_to_wait_for,
    never_met,
    newest_tasks,
    to_run_first,
)
from clusterjobs.jobs.point_folders import digest_of
from clusterjobs.jobs.submissions import NeededJob
from clusterjobs.jobs.sweeps import COMPLETED
from clusterjobs.slurm.queue import by_id, known_jobs
from clusterjobs.spec.need_circle import KEY
from clusterjobs.spec.need_graph import NeedGraph, NeedingSpec, SpecNeed
from clusterjobs.spec.points import Point
from clusterjobs.yaml.document import dotted


class Needs:
    """The specs that a spec needs, checked before anything is submitted."""

    def __init__(self, graph: NeedGraph, output: pathlib.Path, force: bool, say: Say) -> None:
        """Raises InputError for what is wrong with any of the specs that have to be submitted."""
        self._graph, self._say = graph, say
        self._known = _look(graph)
        self._wanted = _to_submit(graph, self._known)
        self._projects = prepared(
            [(one, self._wanted[one.identity]) for one in self._needed() if self._runs(one)],
            output,
            force,
        )
        self.rows: list[NeedRow] = []

    def planned(self) -> list[NeedRow]:
        """What `submit` would do now."""
        return [
            row_to_submit(one, self._known[one.identity], self._wanted[one.identity])
            if self._runs(one)
            else row_of_others(one, self._known[one.identity])
            for one in self._needed()
        ]

    def submit(self) -> tuple[WaitsFor, ...]:
        """Submit the missing jobs. Gives what the spec itself has to wait for, by groups of points.

        Raises InputError; a later `submit` goes on where this one ended.
        """
        for one in self._needed():
            if self._runs(one):
                self._submit(one, self._projects[one.identity])
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

    def _submit(self, one: NeedingSpec, project: NeededProject) -> None:
        with self.named_if_it_fails():
            done = project.submit(self._waits(one), self._known[one.identity], self._say)
        submissions = read_own_submissions(one)
        self._known[one.identity] = KnownJobs(done.states, submissions)
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
        """After an error or Ctrl-C in the block, report what was submitted before it."""
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
