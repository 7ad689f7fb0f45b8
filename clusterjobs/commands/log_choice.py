"""Which job's log `clusterjobs logs SPEC [POINT|JOB_ID]` prints.

It reads folders and asks Slurm; it must not print.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.commands.job_folders import spec_jobs
from clusterjobs.commands.show import printable, table
from clusterjobs.commands.sweeps.jobs import SweepJobs, sweep_jobs
from clusterjobs.commands.unstarted import Unstarted
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.jobs.point_folders import digest_of, point_folders, point_jobs
from clusterjobs.jobs.sweeps import MISSING, STATES, PointState
from clusterjobs.slurm.queue import Queued, by_id, known_jobs
from clusterjobs.spec.point_patterns import one_point

_MOST_POINTS = 20  # in a message


class ChosenLog(NamedTuple):
    """A job with a folder `<base>/<own id>`. `words`: the arguments that select it.

    `ranks_per_node`: the spec's. `jobs`: what Slurm knows; None without Slurm. `unstarted`: for a
    job that ended before it had a folder.
    """

    job_id: str
    base: pathlib.Path
    words: str
    ranks_per_node: int | None
    jobs: tuple[Queued, ...] | None
    unstarted: Unstarted | None = None


def chosen_log(spec: pathlib.Path, which: str | None) -> ChosenLog:
    """The log of a job of the spec, by a point or a job's id. Raises InputError.

    Without `which`, the log of the newest job; an error for a sweep with several points.
    """
    loaded, sweep = sweep_jobs(spec)
    per_node, jobs = loaded.experiment.ranks_per_node, known_jobs()
    if sweep:
        job_id, base = _of_sweep(sweep, which, sweep.states(jobs))
        return ChosenLog(_lasting(job_id, jobs), base, f"{spec} {which}", per_node, jobs)
    queued = None if jobs is None else by_id(job for job in jobs if not job.has_ended)
    found = spec_jobs(spec, queued)
    same = (job.job_id for job in jobs or () if job.shown_id == which and job.state != "PENDING")
    job_id = found.chosen(next(same, which))
    lasting, unstarted = _lasting(job_id, jobs), found.unstarted.get(job_id)
    return ChosenLog(lasting, found.logs, f"{spec} {job_id}", per_node, jobs, unstarted)


def _lasting(job_id: str, jobs: Sequence[Queued] | None) -> str:
    """The job's own id; a pending task has the id of its array."""
    job = by_id(job for job in jobs or () if not job.has_ended).get(job_id)
    return job.shown_id if job and job.state == "PENDING" else job_id


def _of_sweep(
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
        hint = f"clusterjobs logs {sweep.spec} {rows[0][0]}"
        super().__init__([Problem(what, hint=hint)])


_FIRST = ("running", "failed", "lost", "pending", "cancelled")
_ORDER = (*_FIRST, *(state for state in STATES if state not in _FIRST))
