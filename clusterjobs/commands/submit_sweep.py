"""Submits the points of a sweep that have no result yet: one call of sbatch for each array.

It knows in which order records are written, so that no crash loses a job or starts a point twice.
It must not know how points are rendered.
"""

from __future__ import annotations

import os
import pathlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, NamedTuple

from clusterjobs.commands.interrupts import postponed_interrupts
from clusterjobs.commands.submit_checks import check_submission
from clusterjobs.commands.submit_lock import submit_lock, user_name
from clusterjobs.commands.sweep_folder import (
    make_point_folders,
    make_sweep_folder,
    sweep_folder,
)
from clusterjobs.commands.sweep_project import SweepProject, SweepScript
from clusterjobs.errors import one_problem
from clusterjobs.jobs.resume import Wanted, as_ranges, points_to_submit
from clusterjobs.jobs.submissions import (
    Submission,
    append_submission,
    read_submissions,
)
from clusterjobs.jobs.sweeps import PointState, sweep_states
from clusterjobs.slurm.limits import Limits, slurm_limits
from clusterjobs.slurm.queue import Queued, queued_jobs
from clusterjobs.slurm.submit import submit
from clusterjobs.spec.point_patterns import points_matching


class SubmitOptions(NamedTuple):
    """The options of `submit` for a sweep.

    `patterns`: only these points. `completed`: also points with a result. `failed`: only points
    that failed or are lost. `yes`: no questions. `sbatch`: further options of sbatch.
    """

    patterns: tuple[str, ...] = ()
    completed: bool = False
    failed: bool = False
    yes: bool = False
    sbatch: tuple[str, ...] = ()


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


class Chosen(NamedTuple):
    """The states of all points, and the names of those to submit."""

    states: Mapping[str, PointState]
    names: tuple[str, ...]


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
    """Submit what is missing, alone. `submitted` is called after each call of sbatch.

    `say` prints messages while it waits. Raises InputError.
    """
    folder = make_sweep_folder(project.experiment)
    with submit_lock(folder, say) as record:
        seen = _Seen.now(folder)
        chosen = _choose(project, folder, seen, options)
        scripts = project.scripts(chosen.names, seen.limits.max_array_size) if chosen.names else ()
        check_submission(project, chosen.names, seen, options.yes)
        make_point_folders(folder, chosen.names)
        jobs = []
        for script in scripts:
            one = _Call(project, script, frozenset(chosen.names), options.sbatch)
            if one.points:
                jobs.append(one.submit(record, say))
                submitted(jobs[-1])
        return SweepSubmission(chosen, tuple(jobs))


def chosen_points(project: SweepProject, options: SubmitOptions) -> Chosen:
    """What `submit_sweep` would choose now; nothing is written."""
    folder = sweep_folder(project.experiment)
    return _choose(project, folder, _Seen.now(folder, needs_slurm=False), options)


class _Seen(NamedTuple):
    """What was submitted earlier, then the queue, and the limits of Slurm."""

    submissions: Sequence[Submission]
    queued: Mapping[str, Queued] | None
    limits: Limits

    @classmethod
    def now(cls, folder: pathlib.Path, needs_slurm: bool = True) -> _Seen:
        submissions, queued = read_submissions(folder), queued_jobs()
        if queued is None and needs_slurm:
            raise one_problem(
                "there is no squeue here",
                hint="submit from the cluster's head node, or try the lab: clusterjobs lab up small",
            )
        return cls(submissions, queued, slurm_limits() if queued is not None else Limits())


def _choose(
    project: SweepProject, folder: pathlib.Path, seen: _Seen, options: SubmitOptions
) -> Chosen:
    points = {one.point.name: one.content for one in project.points}
    indexes = {one.point.name: one.point.index for one in project.points}
    names = points_matching(options.patterns, indexes) if options.patterns else None
    states = sweep_states(folder, points, seen.submissions, seen.queued)
    wanted = Wanted(names, options.completed, options.failed)
    return Chosen(states, points_to_submit(states, wanted))


class _Call:
    """One call of sbatch, for the chosen points of a script."""

    def __init__(
        self,
        project: SweepProject,
        script: SweepScript,
        names: frozenset[str],
        options: Sequence[str],
    ) -> None:
        self.project, self.script, self.sbatch = project, script, tuple(options)
        rows = [row for row in script.tasks if row.point.point.name in names]
        self.points = {row.key: row.point.point.name for row in rows}
        self.content = {row.point.point.name: row.point.content for row in rows}
        limit = f"%{project.max_running}" if project.max_running else ""
        self.array = f"{as_ranges(row.index for row in rows)}{limit}" if script.is_array else ""

    def submit(self, record: BinaryIO, say: Callable[[str], None]) -> SweepJob:
        """Write the intent, call sbatch, and write its id: a crash in between loses nothing."""
        intent = Submission(
            token=secrets.token_hex(8),
            job_id=None,
            user=user_name(),
            time=int(time.time()),
            spec=self.project.inputs.spec[0],
            array=self.script.is_array,
            points=self.points,
            content=self.content,
        )
        with postponed_interrupts(lambda: say("sbatch is running: stopping after its answer")):
            append_submission(record, intent)
            options = [*self.sbatch, *self._own_options(intent)]
            job = submit(self.script.text, options, os.environ, inherited=(record.fileno(),))
            if job.job_id is not None:
                done = intent.with_job(job.job_id, job.cluster)
                append_submission(record, done)
        return SweepJob(
            job.job_id, job.cluster, self.script.file, self.array, self.points, job.notes
        )

    def _own_options(self, intent: Submission) -> list[str]:
        said = self._comment()
        array = [f"--array={self.array}"] if self.array else []
        return [*array, f"--comment={said} {intent.comment}" if said else f"--comment={intent.comment}"]

    def _comment(self) -> str:
        """The comment of the spec, or of the options after `--`."""
        given = self.script.comment
        for option, following in zip(self.sbatch, (*self.sbatch[1:], ""), strict=True):
            if option == "--comment":
                given = following
            elif option.startswith("--comment="):
                given = option.partition("=")[2]
        return given
