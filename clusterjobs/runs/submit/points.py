"""Submits the points of a sweep that have no result yet: one call of sbatch for each array."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from clusterjobs.console import printable
from clusterjobs.errors import InputError, Problem, counted, one_problem
from clusterjobs.runs.jobs.folders import (
    Submission,
    digest_of,
    former_points,
    read_submissions,
)
from clusterjobs.runs.jobs.identity import token_of
from clusterjobs.runs.jobs.logs_folder import make_point_folders, make_sweep_folder, sweep_folder
from clusterjobs.runs.jobs.patterns import points_matching
from clusterjobs.runs.jobs.states import PointState, Wanted, points_to_submit, sweep_states
from clusterjobs.runs.run import PointTask, Run, RunScript
from clusterjobs.runs.submit.lock import submit_lock, user_name
from clusterjobs.runs.submit.needed_jobs import WaitsFor
from clusterjobs.runs.submit.sbatch import (
    Limits,
    new_intent,
    settled_jobs,
    slurm_limits,
    submit_recorded,
)
from clusterjobs.slurm.queue import Queued, as_ranges, by_id


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


class RunJob(NamedTuple):
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


class RunSubmission(NamedTuple):
    """What was chosen, and the jobs that were submitted."""

    chosen: Chosen
    jobs: tuple[RunJob, ...]


def submit_sweep(
    run: Run,
    options: SubmitOptions,
    say: Callable[[str], None],
    submitted: Callable[[RunJob], None] = lambda _: None,
) -> RunSubmission:
    """Submit the missing points under the lock. `submitted` is called after each sbatch.

    `say` prints messages while it waits. Raises InputError.
    """
    check_sbatch_options(options.sbatch)
    folder = make_sweep_folder(run.spec)
    with submit_lock(folder, say) as record:
        seen = look(folder)
        if seen.queued is None:
            raise one_problem("there is no squeue here", hint=_NO_SLURM)
        chosen = choose(run, folder, seen, options)
        if other := _of_another_spec(run, seen, chosen):
            say(other)
        calls = tuple(_calls(run, chosen.names, options))
        tasks = sum(call.number_of_tasks for call in calls)
        check_submission(run.spec.name, chosen.states, chosen.names, tasks, seen, options.yes)
        make_point_folders(folder, chosen.names)
        if calls and (said := _two_limits(run, chosen)):
            say(said)
        jobs = []
        for call in calls:
            jobs.append(call.submit(record, say))
            submitted(jobs[-1])
        return RunSubmission(chosen, tuple(jobs))


def _of_another_spec(run: Run, seen: Seen, chosen: Chosen) -> str:
    """Points in the queue whose values or command are not those of this spec."""
    last = {digest_of(n): text for one in seen.submissions for n, text in one.content.items()}
    count = sum(
        last.get(digest_of(one.point.name), one.content) != one.content
        for one in run.points
        if chosen.states[one.point.name].in_queue
    )
    said = f"{counted(count, 'point')} in the queue: submitted from another spec, or an earlier one"
    return f"{said}; submit again when these have ended" if count else ""


def _two_limits(run: Run, chosen: Chosen) -> str:
    """Slurm has no common limit for two arrays."""
    most = run.sweep and run.sweep.max_running
    queued = sum(one.in_queue for one in chosen.states.values())
    if not most or not queued:
        return ""
    return (
        f"max_running: {most} holds for each submission: {counted(queued, 'point')} of an earlier "
        f"one may run beside {most} of this one"
    )


_NO_SLURM = "submit from the cluster's head node, or try the lab: clusterjobs lab up small"


def chosen_now(run: Run, options: SubmitOptions) -> Chosen:
    """What `submit_sweep` would choose now; nothing is written."""
    folder = sweep_folder(run.spec)
    return choose(run, folder, look(folder), options)


def matching(run: Run, options: SubmitOptions) -> Sequence[str] | None:
    """The points that the patterns name; None without patterns. Raises InputError."""
    return points_matching(options.patterns, run.indexes) if options.patterns else None


def choose(run: Run, folder: pathlib.Path, seen: Seen, options: SubmitOptions) -> Chosen:
    """The points that `submit_sweep` submits; nothing is written."""
    points = {one.point.name: one.content for one in run.points}
    names = matching(run, options)
    states = sweep_states(folder, points, seen.submissions, seen.queued, seen.ended)
    wanted = Wanted(names, options.completed, options.failed)
    former = former_in_queue(folder, states, seen)
    return Chosen(states, points_to_submit(states, wanted), former)


def _calls(run: Run, names: Sequence[str], options: SubmitOptions) -> Iterator[_Call]:
    """One for each script that has one of the points, and for each group that waits for others."""
    chosen = frozenset(names)
    for script in run.scripts(chosen) if chosen else ():
        for waits in options.waits:
            group = chosen if waits.names is None else chosen & waits.names
            if tasks := [one for one in script.tasks if one.point.point.name in group]:
                yield _Call(run, script, tasks, options.sbatch, waits)


class _Call:
    """One call of sbatch, for the chosen points of a script."""

    def __init__(
        self,
        run: Run,
        script: RunScript,
        tasks: Sequence[PointTask],
        options: Sequence[str],
        waits: WaitsFor,
    ) -> None:
        self.run, self.script, self.waits = run, script, waits
        alone = None if script.is_array else tasks[0].point.point.index
        self.sbatch = (*options, *waits.options(alone))
        self.points = {one.key: one.point.point.name for one in tasks}
        self.content = {one.point.point.name: one.point.content for one in tasks}
        self.number_of_tasks = len({one.task for one in tasks})
        most = run.sweep and run.sweep.max_running
        limit = f"%{most}" if most else ""
        self.array = f"{as_ranges(one.task for one in tasks)}{limit}" if script.is_array else ""

    def submit(self, record: BinaryIO, say: Callable[[str], None]) -> RunJob:
        """Call sbatch, with a record before and after it."""
        intent = new_intent(
            self.run.inputs.spec[0],
            array=self.script.is_array,
            points=self.points,
            content=self.content,
            needs=self.waits.needs,
        )
        options = (*self.sbatch, f"--array={self.array}") if self.array else self.sbatch
        plan = self.script.array.plan
        job = submit_recorded(self.script.text, plan, options, intent, record, say)
        return RunJob(job.job_id, job.cluster, self.script.file, self.array, self.points, job.notes)


# ------------------------------------------------------------------ checks
# Refuses to submit a sweep if points might start twice, or if Slurm would refuse it.


MOST_WITHOUT_YES = 1_000  # points
_OURS = ("--array", "--clusters", "--parsable", "--wrap", "--test-only")


class Seen(NamedTuple):
    """What was submitted earlier, then the jobs in the queue, and the limits of Slurm.

    `ended`: the jobs that Slurm still knows after their end.

    The queue is read after the submissions: a job of which a record speaks has reached it.
    """

    submissions: Sequence[Submission]
    queued: Mapping[str, Queued] | None
    limits: Limits = Limits()
    ended: Mapping[str, Queued] = MappingProxyType({})


def look(folder: pathlib.Path) -> Seen:
    """Look at the sweep's folder, and then at Slurm."""
    submissions = read_submissions(folder)
    known = settled_jobs(one for one in submissions if one.job_id is None)
    if known is None:
        return Seen(submissions, None)
    queued = by_id(job for job in known if not job.has_ended)
    ended = by_id(job for job in known if job.has_ended)
    return Seen(submissions, queued, slurm_limits(), ended)


def check_sbatch_options(options: Sequence[str]) -> None:
    """Raise InputError for options of sbatch that `submit` sets itself, or cannot follow."""
    problems = [
        Problem(
            f"{option} cannot be given for a sweep",
            hint="select points with --points, or pass the rendered scripts to sbatch yourself",
        )
        for option in options
        if _is_ours(option.partition("=")[0]) or option[:2] in ("-a", "-M")
    ]
    if clusters := os.environ.get("SBATCH_CLUSTERS"):
        problems.append(
            Problem(
                f"SBATCH_CLUSTERS is {clusters}: squeue would not find the jobs of a sweep there",
                hint="unset SBATCH_CLUSTERS, and submit on that cluster",
            )
        )
    if problems:
        raise InputError(problems)


def _is_ours(option: str) -> bool:
    """Whether `submit` sets this option, which may be shortened: sbatch takes `--arr=0-3`."""
    return option.startswith("--") and any(one.startswith(option) for one in _OURS)


def check_submission(
    name: str,
    states: Mapping[str, PointState],
    chosen: Collection[str],
    tasks: int,
    seen: Seen,
    confirmed: bool,
) -> None:
    """Raise InputError if the chosen points cannot be submitted.

    `name` of the jobs, and the number of their `tasks`. `confirmed`: the user says that it is
    right.
    """
    if not chosen:
        return
    most, queued = seen.limits.max_jobs, len(seen.queued or ())
    if most and queued + tasks > most:
        raise one_problem(
            f"{counted(tasks, 'task')} are too many: Slurm takes {most:,} jobs at a time "
            f"(MaxJobCount), and has {queued:,}",
            hint=f"submit a part of them (--points 0-{max(0, most - queued - 1)}), "
            "and the rest when these have ended",
        )
    if not confirmed:
        problems = [*_too_many(chosen), *_by_hand(name, states, seen), *_hidden(chosen, seen)]
        if problems:
            raise InputError(problems)


def _too_many(chosen: Collection[str]) -> Iterator[Problem]:
    if len(chosen) > MOST_WITHOUT_YES:
        yield Problem(
            f"{len(chosen):,} points would be submitted", hint="add --yes to submit more than 1,000"
        )


def _by_hand(name: str, states: Mapping[str, PointState], seen: Seen) -> Iterator[Problem]:
    """Jobs of this name in the queue that `submit` has not submitted: their points are unknown."""
    running = {one.job_id for one in states.values() if one.in_queue}
    arrays = {
        job.array_id or job.job_id
        for job_id, job in (seen.queued or {}).items()
        if job.name == name and job.user_id == os.getuid()
        if not token_of(job) and job_id not in running
    }
    for array in sorted(arrays, key=int):
        yield Problem(
            f"job {array} in the queue has the same name, but was submitted with plain sbatch: "
            "its points are unknown",
            hint=f"wait for it, cancel it (clusterjobs cancel {array}), "
            "or add --yes if it runs no points of this sweep",
        )


def _hidden(chosen: Collection[str], seen: Seen) -> Iterator[Problem]:
    """Points that other users have submitted, if Slurm hides their jobs."""
    if not seen.limits.hides_jobs:
        return
    digests = {digest_of(name) for name in chosen}
    last = {digest_of(name): one.user for one in seen.submissions for name in one.points.values()}
    for user in sorted({last[one] for one in digests & {*last}} - {user_name()}):
        count = sum(last.get(one) == user for one in digests)
        yield Problem(
            f"{user} has submitted {counted(count, 'point')} of these, and this Slurm hides the "
            "jobs of other users (PrivateData)",
            hint=f"let {user} submit; or add --yes if none of them is in the queue",
        )


# ------------------------------------------------------------------ former
# Points in the queue that the spec no longer has: `submit` names them, and leaves them alone.


_MOST = 8  # points in a message


def former_in_queue(
    folder: pathlib.Path, states: Mapping[str, PointState], seen: Seen
) -> dict[str, str]:
    """Their names, each with its job as scancel takes it.

    `states`: of the spec's points. A packed job that also runs one of them is left out.
    """
    names = dict.fromkeys(former_points(seen.submissions, states), "")
    queued = seen.queued or {}
    if not names or not queued:
        return {}
    found = sweep_states(folder, names, seen.submissions, queued)
    shared = {one.job_id for one in states.values() if one.in_queue}
    return {
        name: queued[one.job_id].shown_id
        for name, one in found.items()
        if one.in_queue and one.job_id not in shared
    }


def former_note(former: Mapping[str, str]) -> str:
    """What they are, and how to cancel them."""
    jobs = list(dict.fromkeys(former.values()))
    names = map(printable, list(former)[:_MOST])  # from a file that others may write
    are = "is" if len(former) == 1 else "are"
    more = f" and {len(former) - _MOST:,} more" if len(former) > _MOST else ""
    what = f"{counted(len(former), 'point')} in the queue {are} no longer in the spec"
    listed = " ".join(jobs) if len(jobs) <= _MOST else f"{jobs[0]} ..."
    return f"{what}: {', '.join(names)}{more}\n   to cancel: clusterjobs cancel {listed}"
