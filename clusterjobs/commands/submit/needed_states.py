"""The states of the jobs of a spec that others need, with or without a sweep.

It knows where their folders and the record of submissions are; it must not submit.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from clusterjobs.commands.job_folders import logs_folder, submissions_of
from clusterjobs.commands.own_configs import OwnConfigs
from clusterjobs.commands.submit.sweep_folder import sweep_folder
from clusterjobs.jobs.folders import JobFolder, job_folders
from clusterjobs.jobs.submissions import Submission, read_submissions
from clusterjobs.jobs.sweeps import (
    CHANGED,
    MISSING,
    PENDING,
    RUNNING,
    PointState,
    plain_state,
    sweep_states,
)
from clusterjobs.slurm.queue import Queued
from clusterjobs.spec.need_graph import NeedingSpec
from clusterjobs.spec.references import as_text

BY_NAME = "found by its name"


class KnownJobs(NamedTuple):
    """The states of a spec's points by name, "" without a sweep, and what was submitted of it."""

    states: Mapping[str, PointState]
    submissions: tuple[Submission, ...]


def record_folder(spec: NeedingSpec) -> pathlib.Path:
    """The folder with the record of the submissions: that of the sweep, or else `logs`."""
    experiment = spec.spec.experiment
    if spec.is_sweep:
        return sweep_folder(experiment)
    return logs_folder(as_text(experiment.logs.path))


def read_own_submissions(spec: NeedingSpec) -> tuple[Submission, ...]:
    """What was submitted of this spec; without a sweep, others share the record."""
    if spec.is_sweep:
        return read_submissions(record_folder(spec))
    return submissions_of(file_name(spec), spec.spec.experiment.name, record_folder(spec))


def known_jobs_of(
    spec: NeedingSpec, submissions: tuple[Submission, ...], queued: Mapping[str, Queued]
) -> KnownJobs:
    """The states of its jobs. Read the submissions first, then the queue: a job that ends in
    between has written its record by now."""
    folder, configs = record_folder(spec), OwnConfigs(pathlib.Path(spec.file))
    if spec.is_sweep:
        points = {one.point.name: configs.content(one) for one in spec.points if one.point}
        return KnownJobs(sweep_states(folder, points, submissions, queued), submissions)
    content, name = configs.content(spec.spec), spec.spec.experiment.name
    same = tuple(one for one in submissions if one.content.get(name) == content)
    folders = [one for one in job_folders(folder) if one.is_of(name, file_name(spec))]
    own = [one.path for one in folders if one.plan.get("content") == content]
    state = plain_state(own, same, queued, content)
    if state.state == MISSING:
        known = {str(one.job_id) for one in submissions}
        of_another_content = PointState(CHANGED) if folders else state
        state = _waiting_by_name(name, queued, folders, known) or of_another_content
    return KnownJobs({"": state}, same)


def file_name(spec: NeedingSpec) -> str:
    """The name of the spec's file, as plan.json has it."""
    return pathlib.Path(spec.file).name


def _waiting_by_name(
    name: str,
    queued: Mapping[str, Queued],
    folders: Iterable[JobFolder],
    known: set[str],
) -> PointState | None:
    """A job of this user that was submitted on its own, and has no folder yet."""
    known |= {one.job_id for one in folders}
    for job_id, job in reversed([*queued.items()]):
        is_ours = job.name == name and job.user_id == os.getuid() and not job.array_index
        if is_ours and job.state in ("PENDING", "CONFIGURING") and job_id not in known:
            state = PENDING if job.state == "PENDING" else RUNNING
            return PointState(state, BY_NAME, job_id, in_queue=True)
    return None
