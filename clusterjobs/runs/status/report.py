"""What `status` shows of the targets: chosen jobs and sweeps, as text or as data."""

import pathlib
import re
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import click

from clusterjobs.console import printable, problem_data
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.node.job.attempt_files import MAX_RECORDS
from clusterjobs.runs.jobs.choose import spec_of_job
from clusterjobs.runs.jobs.folders import Submission, digest_of
from clusterjobs.runs.jobs.records import NO_RECORD
from clusterjobs.runs.jobs.states import FAILED, LOST, PENDING, RUNNING
from clusterjobs.runs.status.job import (
    JobData,
    JobPlace,
    Queue,
    add_traceback,
    ask_queue,
    job_data,
    no_record_note,
)
from clusterjobs.runs.status.sweep import SweepData
from clusterjobs.runs.status.tables import (
    job_details,
    jobs_table,
    points_table,
    summary_line,
    sweep_line,
    traceback_text,
)
from clusterjobs.runs.status.targets import Finder, Group, my_groups

# ------------------------------------------------------------------ task ids
# Resolves the id of a task of an array, `4711_3`, as `status` shows it until the task starts.


def own_id(job_id: str, queue: Queue) -> str:
    """The task's own job id, if Slurm knows that it has one; else `job_id`."""
    known = (*(queue.queued or {}).values(), *queue.ended)
    tasks = (job for job in known if job.shown_id == job_id and job.job_id != job.array_id)
    return next((job.job_id for job in tasks), job_id)


def points_of_task(sweep: SweepData, job_id: str) -> set[str]:
    """The points that were submitted last as this task: several in a pack."""
    array, _, task = job_id.partition("_")
    newest: dict[str, tuple[Submission, str]] = {}
    for one in sweep.sweep.submissions:
        if one.job_id is not None:
            newest |= {digest_of(name): (one, key) for key, name in one.points.items()}
    digests = {
        digest
        for digest, (one, key) in newest.items()
        if task and str(one.job_id) == array and key.partition(".")[0] == task
    }
    return {name for name in sweep.all_states if digest_of(name) in digests}


_NOTHING = "you have no job in the queue, and Slurm knows none that ended recently"


@dataclass(frozen=True)
class Wanted:
    """The command line. `targets`: specs and folders; none: the caller's own jobs."""

    targets: tuple[pathlib.Path, ...]
    job_ids: tuple[str, ...]
    points: bool
    metric: re.Pattern[str] | None
    settings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """One look at all targets."""

    wanted: Wanted
    queue: Queue
    groups: tuple[Group, ...]
    problems: tuple[Problem, ...]

    @property
    def jobs(self) -> list[JobData]:
        return [job for group in self.groups for job in group.jobs]

    @property
    def sweeps(self) -> list[SweepData]:
        return [sweep for group in self.groups for sweep in group.sweeps]

    def check(self) -> None:
        """Raises InputError if the one spec that was named has no jobs."""
        if len(self.groups) == 1 and self.groups[0].found:
            self.groups[0].found.chosen(None)

    def is_over(self) -> bool:
        """Whether all jobs have ended, so that nothing will change."""
        states = [job["status"] for job in self.jobs]
        for sweep in self.sweeps:
            states += [*sweep.counts(), *sweep.former_counts()]
        return self.queue.queued is not None and not {PENDING, RUNNING}.intersection(states)

    def data(self) -> dict[str, Any]:
        """The report as data, for `--json`. Names are stable across versions."""
        return {
            "slurm": self.queue.queued is not None,
            "jobs": self.jobs,
            "sweeps": [
                {
                    "name": sweep.sweep.name,
                    "spec": sweep.sweep.spec,
                    "folder": str(sweep.sweep.folder),
                    "counts": sweep.counts(),
                    "former_counts": sweep.former_counts(),
                    "points": self._points(sweep),
                }
                for sweep in self.sweeps
            ],
            "slurm_problem": self.queue.silence,
            "problems": [problem_data(problem) for problem in self.problems],
        }

    def text(self) -> str:
        """All groups, then a summary line."""
        parts = ["\n".join(self._group(group)) for group in self.groups]
        if summary := summary_line(self.jobs, self.sweeps):
            parts.append(summary)
        return "\n\n".join(filter(None, parts)) or _NOTHING

    def notes(self) -> Iterator[str]:
        if self.queue.silence:
            yield self.queue.silence
        elif self.queue.queued is None:
            yield "there is no Slurm here: showing only what the jobs have recorded"
        for job in self.jobs:
            for file in job["cut"]:
                yield f"{file} is very large: only its last {MAX_RECORDS >> 20} MiB was read"
            if job["attempts"] and job["attempts"][-1]["reason"] == NO_RECORD:
                last, spec = job["attempts"][-1], job["spec"] or "SPEC"
                yield no_record_note(job["job_id"], last["number"], spec)
        for group in self.groups:
            shown = {job["job_id"] for job in group.jobs}
            unstarted = group.found.unstarted if group.found else {}
            yield from (one.note(name) for name, one in unstarted.items() if name in shown)
        if not self.wanted.job_ids:
            yield from filter(None, map(_hint_to_failed, self.sweeps))

    def _group(self, group: Group) -> Iterator[str]:
        named = self.wanted.targets or self.wanted.job_ids
        if group.jobs and (len(self.groups) > 1 or not named):
            yield printable(group.title)
        if group.jobs:
            yield jobs_table(group.jobs)
        if self.wanted.job_ids:
            for job in group.jobs:
                yield from (f"\n{part}" for part in job_details(job))
        for job in group.jobs:
            if text := traceback_text(job):
                yield f"\n{text}"
        for sweep in group.sweeps:
            yield sweep_line(sweep)
            if self.wanted.points:
                yield from self._tables(sweep)

    def _tables(self, sweep: SweepData) -> Iterator[str]:
        """The points of the spec, then those that it no longer has."""
        metric = "metric" if self._metric(sweep) else ""
        points = self._points(sweep)
        yield points_table([one for one in points if one["in_spec"]], metric)
        if former := [one for one in points if not one["in_spec"]]:
            yield "\nno longer in the spec:"
            yield points_table(former, metric)

    def _points(self, sweep: SweepData) -> list[dict[str, Any]]:
        metric = self._metric(sweep)
        return [sweep.point(known, metric, self.wanted.points) for known in sweep.points]

    def _metric(self, sweep: SweepData) -> re.Pattern[str] | None:
        of_spec = sweep.sweep.metric
        return self.wanted.metric or (metric_pattern(of_spec) if of_spec else None)


def _hint_to_failed(sweep: SweepData) -> str:
    """How to see why a point failed."""
    failed = [one.job_id for one in sweep.states.values() if one.state == FAILED and one.job_id]
    target = shlex.quote(sweep.sweep.spec or str(sweep.sweep.folder))
    return f"why a point failed: clusterjobs status {target} {failed[0]}" if failed else ""


def make_report(wanted: Wanted) -> Report:
    """Look at all targets, with one call of squeue. Raises InputError."""
    finder = Finder(wanted.settings)
    views = [view for target in wanted.targets for view in finder.views(target)]
    queue = ask_queue()
    if wanted.job_ids and not wanted.targets:
        specs = {spec_of_job(one, queue.known) for one in wanted.job_ids}
        views = [] if None in specs else [finder.spec(one) for one in specs if one]
    groups = [view(queue) for view in views] or ([] if wanted.targets else _mine(finder, queue))
    if wanted.job_ids:
        groups = _chosen(groups, wanted.job_ids, queue)
    for group in groups:
        for job in group.jobs if wanted.job_ids else group.jobs[-1:]:
            add_traceback(job)
    return Report(wanted, queue, tuple(groups), tuple(finder.problems))


def metric_pattern(text: str) -> re.Pattern[str]:
    """A pattern with one group, the number. Raises InputError."""
    example = "write a pattern with one group: --metric 'loss=([0-9.]+)'"
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise one_problem(f"{text!r} is no regular expression: {error}", hint=example) from None
    if pattern.groups != 1:
        raise one_problem(f"{text!r} has {pattern.groups} groups, not one", hint=example)
    return pattern


def _mine(finder: Finder, queue: Queue) -> list[Group]:
    if queue.silence:
        raise one_problem(queue.silence)
    if queue.queued is None:
        hint = "name a spec, a folder with specs, or a `logs` folder: clusterjobs status exp.yaml"
        raise one_problem("there is no Slurm here, so your jobs are not known", hint=hint)
    return list(my_groups(finder, queue))


def _chosen(groups: Sequence[Group], job_ids: Sequence[str], queue: Queue) -> list[Group]:
    """The groups with only these jobs, also of sweeps. Raises InputError if one is not there."""
    chosen = []
    own_ids = {one: own_id(one, queue) for one in job_ids}
    wanted = {*own_ids, *own_ids.values()}
    found = set()
    for group in groups:
        if jobs := tuple(job for job in group.jobs if job["job_id"] in wanted):
            chosen.append(group._replace(jobs=jobs, sweeps=()))
        for sweep in group.sweeps:  # the points of a pack share one job
            tasks = {one: points_of_task(sweep, one) for one in job_ids}
            found |= {one for one, names in tasks.items() if names}
            of_points = _point_jobs(sweep, wanted, set().union(*tasks.values()), queue)
            chosen += [Group(f"point {job['name']}", (job,)) for job in of_points]
    found |= {job["job_id"] for group in chosen for job in group.jobs}
    for job_id in job_ids:
        if not found.intersection((job_id, own_ids[job_id])):
            _report_missing(groups, job_id)
    return chosen


def _point_jobs(
    sweep: SweepData, job_ids: Collection[str], names: Collection[str], queue: Queue
) -> Iterator[JobData]:
    """The newest jobs of these points, and those with these ids."""
    for name, state in sweep.all_states.items():
        if state.job_id in job_ids or name in names:
            of = sweep.sweep
            place = JobPlace(state.job_id, state.folder, of.spec, name, of.patterns)
            queued = (queue.queued or {}).get(state.job_id) if state.in_queue else None
            end = "" if state.state == LOST else state.reason
            yield job_data(
                place._replace(needed_specs=sweep.needed_specs, queued=queued, end=end), queue
            )


def _report_missing(groups: Sequence[Group], job_id: str) -> None:
    if len(groups) == 1 and groups[0].found:
        groups[0].found.chosen(job_id)
    known = [job["job_id"] for group in groups for job in group.jobs]
    for sweep in (one for group in groups for one in group.sweeps):
        known += [one.job_id for one in sweep.all_states.values()]
    listed = ", ".join(list(dict.fromkeys(filter(None, known)))[-8:])
    hint = f"the jobs: {listed}" if listed else "name its spec: clusterjobs status exp.yaml 1234"
    raise one_problem(f"no job {job_id} is known here", hint=hint)


# ------------------------------------------------------------------ watch
# Redraws a view until nothing in it can change any more, or Ctrl-C.


class Watched(Protocol):
    def text(self) -> str: ...
    def is_over(self) -> bool: ...


def watch(look: Callable[[], Watched], seconds: float) -> None:
    """Look until Ctrl-C: redraw a terminal's view in place; elsewhere print each change.

    After the first look, problems are printed and looked past: Slurm may be busy for a moment.
    """
    last, is_terminal = None, sys.stdout.isatty()
    try:
        while True:
            try:
                seen = look()
            except InputError as error:
                if last is None:
                    raise
                click.echo("; ".join(printable(one.what) for one in error.problems), err=True)
                time.sleep(seconds)
                continue
            if (text := seen.text()) != last:
                if is_terminal:
                    click.clear()
                elif last is not None:
                    click.echo()
                click.echo(text)
                last = text
            if seen.is_over():
                return
            time.sleep(seconds)
    except KeyboardInterrupt:
        return  # the last view stays
