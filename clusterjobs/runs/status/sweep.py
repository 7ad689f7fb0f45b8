"""Collects all data of one sweep: the state of each point.

The names are those of `status --json`, stable across versions.
"""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs.runs.content import OwnConfigs
from clusterjobs.runs.jobs.folders import (
    Submission,
    digest_of,
    former_points,
    is_point,
    needed_specs,
    point_folders,
    point_jobs,
    read_plan,
    read_submissions,
)
from clusterjobs.runs.jobs.logs_folder import sweep_folder, sweep_name
from clusterjobs.runs.jobs.records import read_folder
from clusterjobs.runs.jobs.states import MISSING, PENDING, RUNNING, STATES, PointState, sweep_states
from clusterjobs.runs.status.job import Queue, log_patterns
from clusterjobs.runs.status.log_end import last_logged_step, last_match, last_message, read_log_end
from clusterjobs.slurm.jobs import in_words
from clusterjobs.slurm.queue import by_id
from clusterjobs.spec.load import LoadedSpec


@dataclass(frozen=True)
class Known:
    """A point as the spec, or its folder, has it. `content`: "" if it is unknown."""

    index: int
    name: str
    values: Mapping[str, Any]
    content: str = ""


class Sweep(NamedTuple):
    """A sweep before Slurm is asked. `spec` is "" for a folder; `metric`: the spec's pattern.

    `former`: points that were submitted, and that the spec no longer has.
    """

    name: str
    spec: str
    folder: pathlib.Path
    patterns: tuple[str, ...]
    points: tuple[Known, ...]
    submissions: tuple[Submission, ...]
    metric: str | None = None
    former: tuple[Known, ...] = ()

    def with_states(self, queue: Queue) -> SweepData:
        """Asks no command. `queue` must be newer than `submissions`."""
        contents = {point.name: point.content for point in (*self.points, *self.former)}
        states = sweep_states(
            self.folder, contents, self.submissions, queue.queued, by_id(queue.ended)
        )
        former = {point.name: states.pop(point.name) for point in self.former}
        with_jobs = {name: one for name, one in former.items() if one.state != MISSING}
        return SweepData(self, states, with_jobs, queue, needed_specs(self.submissions))


class SweepData(NamedTuple):
    """A sweep with the state of each point, by name.

    `former_states`: of points with jobs that the spec no longer has. `needed_specs`: of the jobs
    that points wait for, by their ids.
    """

    sweep: Sweep
    states: Mapping[str, PointState]
    former_states: Mapping[str, PointState]
    queue: Queue
    needed_specs: Mapping[str, str]

    @property
    def all_states(self) -> dict[str, PointState]:
        """The states of all points, also of those that the spec no longer has."""
        return {**self.states, **self.former_states}

    @property
    def points(self) -> tuple[Known, ...]:
        """The points to show: those of the spec, then the others that have jobs."""
        former = (point for point in self.sweep.former if point.name in self.former_states)
        return (*self.sweep.points, *former)

    def counts(self) -> dict[str, int]:
        """State -> number of points of the spec, without states that no point has."""
        return _counts(self.states)

    def former_counts(self) -> dict[str, int]:
        """How many points that the spec no longer has are in each state."""
        return _counts(self.former_states)

    def point(self, known: Known, metric: re.Pattern[str] | None, with_log: bool) -> dict[str, Any]:
        """One point as data. Step, metric and attempts only `with_log`: they cost reading files."""
        in_spec = known.name in self.states
        state = (self.states if in_spec else self.former_states)[known.name]
        job = (self.queue.queued or {}).get(state.job_id) if state.in_queue else None
        is_waiting = state.state == PENDING
        data = {
            "index": known.index,
            "name": known.name,
            "values": dict(known.values),
            "state": state.state,
            "in_spec": in_spec,
            "reason": "" if state.reason == "None" else state.reason,
            "waits_for": in_words(state.reason, job.dependency if job else "", self.needed_specs)
            if is_waiting
            else "",
            "expected_start": job.start if job and is_waiting else "",
            "time_left": job.time_left if job else "",
            "nodes": job.nodes if job else "",
            "job_id": state.job_id,
            "folder": str(state.folder) if state.folder else "",
            "exit_code": state.attempt.exit_code if state.attempt else None,
        }
        return data | (self._logged(state, metric) if with_log else dict.fromkeys(_LOGGED))

    def _logged(self, state: PointState, metric: re.Pattern[str] | None) -> dict[str, Any]:
        """What the folder of the newest job says, if it is the job of this state."""
        if state.folder is None:
            return dict.fromkeys(_LOGGED) | {"attempt": 0}
        last = state.attempt or next(reversed(read_folder(state.folder).attempts), None)
        log = state.folder / "job.log"
        step = last_logged_step(log, self.sweep.patterns)
        return {
            "attempt": (last.number if last else 0) + (state.state == RUNNING),
            "checkpoint": last.checkpoint if last else "",
            "step": step and step.step,
            "steps": step and step.steps,
            "metric": last_match(read_log_end(log), metric) if metric else None,
            "message": last_message(log, state.attempt.reason) if state.attempt else "",
        }


def _counts(states: Mapping[str, PointState]) -> dict[str, int]:
    found = Counter(one.state for one in states.values())
    return {state: found[state] for state in STATES if found[state]}


_LOGGED = ("attempt", "checkpoint", "step", "steps", "metric", "message")


def spec_sweep(spec: pathlib.Path, points: Sequence[LoadedSpec]) -> Sweep:
    """The sweep of a spec, by its points."""
    written, configs = points[0].spec, OwnConfigs(spec)
    known = tuple(
        Known(one.point.index, one.point.name, one.point.values, configs.content(one))
        for one in points
        if one.point
    )
    folder = sweep_folder(written)
    submissions = read_submissions(folder)
    return Sweep(
        sweep_name(written),
        str(spec),
        folder,
        log_patterns(written.framework),
        known,
        submissions,
        written.sweep.metric if written.sweep else None,
        _former(folder, submissions, known),
    )


def _former(
    folder: pathlib.Path, submissions: Sequence[Submission], points: Sequence[Known]
) -> tuple[Known, ...]:
    names = former_points(submissions, (point.name for point in points))
    folders = point_folders(folder) if names else {}
    plans = {name: _plan(point_jobs(folders.get(digest_of(name), ()))) for name in names}
    return tuple(Known(_index(name), name, _values(plan)) for name, plan in plans.items())


def folder_sweep(folder: pathlib.Path) -> Sweep | None:
    """The sweep that was submitted into a folder: its points, and those that have a folder.

    None if there is none: a `logs` folder has a record of its jobs without a sweep.
    """
    submissions = tuple(
        one for one in read_submissions(folder) if any(map(is_point, one.points.values()))
    )
    if not submissions:
        return None
    names = {digest_of(name): name for one in submissions for name in one.points.values()}
    folders = {
        digest: paths for digest, paths in point_folders(folder).items() if is_point(paths[-1].name)
    }
    names |= {digest: paths[-1].name for digest, paths in folders.items() if digest not in names}
    plans = {digest: _plan(point_jobs(folders.get(digest, ()))) for digest in names}
    known = [Known(_index(name), name, _values(plans[digest])) for digest, name in names.items()]
    framework = next((str(one["framework"]) for one in plans.values() if "framework" in one), "")
    points = tuple(sorted(known, key=lambda point: (point.index, point.name)))
    return Sweep(folder.name, "", folder, log_patterns(framework), points, submissions)


def _index(name: str) -> int:
    first = name.partition("-")[0]
    return int(first) if first.isdecimal() and len(first) < 10 else 0


def _plan(jobs: Sequence[pathlib.Path]) -> dict[str, Any]:
    """The plan of the newest job."""
    return read_plan(jobs[-1] / "plan.json") if jobs else {}


def _values(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    point = plan.get("point")
    values = point.get("values") if isinstance(point, dict) else None
    return values if isinstance(values, dict) else {}
