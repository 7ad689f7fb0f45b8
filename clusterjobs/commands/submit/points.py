"""Submits the points of a sweep that have no result yet: one call of sbatch for each array.

It knows which points are submitted, and in which calls; it must not know how they are rendered.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

from clusterjobs.commands.submit.checks import Seen, check_sbatch_options, check_submission, look
from clusterjobs.commands.submit.former import former_in_queue
from clusterjobs.commands.submit.lock import submit_lock
from clusterjobs.commands.submit.record import new_intent, submit_recorded
from clusterjobs.commands.submit.sweep_folder import (
    make_point_folders,
    make_sweep_folder,
    sweep_folder,
)
from clusterjobs.commands.sweeps.files import SweepScript, SweepTask
from clusterjobs.commands.sweeps.project import SweepProject
from clusterjobs.counted import counted
from clusterjobs.errors import one_problem
from clusterjobs.jobs.needed_jobs import WaitsFor
from clusterjobs.jobs.point_folders import digest_of
from clusterjobs.jobs.resume import Wanted, points_to_submit
from clusterjobs.jobs.sweeps import PointState, sweep_states
from clusterjobs.slurm.array_ids import as_ranges
from clusterjobs.spec.point_patterns import points_matching


class SubmitOptions(NamedTuple):
    """The options of `submit` for a sweep.

    `patterns`: only these points. `completed`: also points with a result. `failed`: only points
    that failed or are lost. `yes`: no questions. `sbatch`: further options of sbatch. `waits`: the
    jobs that points wait for, one for each group of points.
    """

    patterns: tuple[str, ...] = ()
    completed: bool = False
    failed: bool = False
    yes: bool = False
    sbatch: tuple[str, ...] = ()
    waits: tuple[WaitsFor, ...] = (WaitsFor(),)


class SweepJob(NamedTuple):
    """One call of sbatch. `array`: its --array, "" for a single job. `points`: task -> name.

    `notes`: what sbatch wrote to stderr.
    """

    job_id: int | None
    cluster: str | None
    script: str
    array: str
    points: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def tasks(self) -> dict[str, str]:
        """The name of each point -> its job, as scancel takes it: `4711_3`."""
        job = "" if self.job_id is None else str(self.job_id)
        return {
            name: f"{job}_{key.partition('.')[0]}" if key else job
            for key, name in self.points.items()
        }


class Chosen(NamedTuple):
    """The states of all points, and the names of those to submit.

    `former`: the points in the queue that the spec no longer has, each with its job.
    """

    states: Mapping[str, PointState]
    names: tuple[str, ...]
    former: Mapping[str, str]


class SweepSubmission(NamedTuple):
    """What was chosen, and the jobs that were submitted."""

    chosen: Chosen
    jobs: tuple[SweepJob, ...]


def submit_sweep(
    project: SweepProject,
    options: SubmitOptions,
    say: Callable[[str], None],
    submitted: Callable[[SweepJob], None] = lambda _: None,
) -> SweepSubmission:
    """Submit the missing points under the lock. `submitted` is called after each sbatch.

    `say` prints messages while it waits. Raises InputError.
    """
    check_sbatch_options(options.sbatch)
    folder = make_sweep_folder(project.experiment)
    with submit_lock(folder, say) as record:
        seen = look(folder)
        if seen.queued is None:
            raise one_problem("there is no squeue here", hint=_NO_SLURM)
        chosen = choose(project, folder, seen, options)
        if other := _of_another_spec(project, seen, chosen):
            say(other)
        calls = tuple(_calls(project, chosen.names, options))
        tasks = sum(call.number_of_tasks for call in calls)
        name = project.experiment.name
        check_submission(name, chosen.states, chosen.names, tasks, seen, options.yes)
        make_point_folders(folder, chosen.names)
        if calls and (said := _two_limits(project, chosen)):
            say(said)
        jobs = []
        for call in calls:
            jobs.append(call.submit(record, say))
            submitted(jobs[-1])
        return SweepSubmission(chosen, tuple(jobs))


def _of_another_spec(project: SweepProject, seen: Seen, chosen: Chosen) -> str:
    """Points in the queue whose values or command are not those of this spec."""
    last = {digest_of(n): text for one in seen.submissions for n, text in one.content.items()}
    count = sum(
        last.get(digest_of(one.point.name), one.content) != one.content
        for one in project.points
        if chosen.states[one.point.name].in_queue
    )
    said = f"{counted(count, 'point')} in the queue: submitted from another spec, or an earlier one"
    return f"{said}; submit again when these have ended" if count else ""


def _two_limits(project: SweepProject, chosen: Chosen) -> str:
    """Slurm has no common limit for two arrays."""
    most, queued = project.sweep.max_running, sum(one.in_queue for one in chosen.states.values())
    if not most or not queued:
        return ""
    return (
        f"max_running: {most} holds for each submission: {counted(queued, 'point')} of an earlier "
        f"one may run beside {most} of this one"
    )


_NO_SLURM = "submit from the cluster's head node, or try the lab: clusterjobs lab up small"


def chosen_now(project: SweepProject, options: SubmitOptions) -> Chosen:
    """What `submit_sweep` would choose now; nothing is written."""
    folder = sweep_folder(project.experiment)
    return choose(project, folder, look(folder), options)


def matching(project: SweepProject, options: SubmitOptions) -> Sequence[str] | None:
    """The points that the patterns name; None without patterns. Raises InputError."""
    indexes = {one.point.name: one.point.index for one in project.points}
    return points_matching(options.patterns, indexes) if options.patterns else None


def choose(
    project: SweepProject, folder: pathlib.Path, seen: Seen, options: SubmitOptions
) -> Chosen:
    """The points that `submit_sweep` submits; nothing is written."""
    points = {one.point.name: one.content for one in project.points}
    names = matching(project, options)
    states = sweep_states(folder, points, seen.submissions, seen.queued, seen.ended)
    wanted = Wanted(names, options.completed, options.failed)
    former = former_in_queue(folder, states, seen)
    return Chosen(states, points_to_submit(states, wanted), former)


def _calls(project: SweepProject, names: Sequence[str], options: SubmitOptions) -> Iterator[_Call]:
    """One for each script that has one of the points, and for each group that waits for others."""
    chosen = frozenset(names)
    for script in project.scripts(chosen) if chosen else ():
        for waits in options.waits:
            group = chosen if waits.names is None else chosen & waits.names
            if tasks := [one for one in script.tasks if one.point.point.name in group]:
                yield _Call(project, script, tasks, options.sbatch, waits)


class _Call:
    """One call of sbatch, for the chosen points of a script."""

    def __init__(
        self,
        project: SweepProject,
        script: SweepScript,
        tasks: Sequence[SweepTask],
        options: Sequence[str],
        waits: WaitsFor,
    ) -> None:
        self.project, self.script, self.waits = project, script, waits
        alone = None if script.is_array else tasks[0].point.point.index
        self.sbatch = (*options, *waits.options(alone))
        self.points = {one.key: one.point.point.name for one in tasks}
        self.content = {one.point.point.name: one.point.content for one in tasks}
        self.number_of_tasks = len({one.task for one in tasks})
        limit = f"%{project.sweep.max_running}" if project.sweep.max_running else ""
        self.array = f"{as_ranges(one.task for one in tasks)}{limit}" if script.is_array else ""

    def submit(self, record: BinaryIO, say: Callable[[str], None]) -> SweepJob:
        """Call sbatch, with a record before and after it."""
        intent = new_intent(
            self.project.inputs.spec[0],
            array=self.script.is_array,
            points=self.points,
            content=self.content,
            needs=self.waits.needs,
        )
        options = (*self.sbatch, f"--array={self.array}") if self.array else self.sbatch
        plan = self.script.array.plan
        job = submit_recorded(self.script.text, plan, options, intent, record, say)
        return SweepJob(
            job.job_id, job.cluster, self.script.file, self.array, self.points, job.notes
        )
