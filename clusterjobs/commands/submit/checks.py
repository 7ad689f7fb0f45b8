"""Refuses to submit a sweep if points might start twice, or if Slurm would refuse it.

It knows the queue and what was submitted earlier; it must not know how points are chosen.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from clusterjobs.commands.submit.lock import user_name
from clusterjobs.counted import counted
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.jobs.point_folders import digest_of
from clusterjobs.jobs.submissions import Submission, has_token, read_submissions
from clusterjobs.jobs.sweeps import PointState
from clusterjobs.slurm.limits import Limits, slurm_limits
from clusterjobs.slurm.queue import Queued, by_id, known_jobs

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
    submissions, known = read_submissions(folder), known_jobs()
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
    """Also if it is shortened: sbatch takes `--arr=0-3`."""
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
    _check_room(tasks, seen)
    if not confirmed:
        problems = [*_too_many(chosen), *_by_hand(name, states, seen), *_hidden(chosen, seen)]
        if problems:
            raise InputError(problems)


def _check_room(count: int, seen: Seen) -> None:
    most, queued = seen.limits.max_jobs, len(seen.queued or ())
    if most and queued + count > most:
        raise one_problem(
            f"{counted(count, 'task')} are too many: Slurm takes {most:,} jobs at a time "
            f"(MaxJobCount), and has {queued:,}",
            hint=f"submit a part of them (--points 0-{max(0, most - queued - 1)}), "
            "and the rest when these have ended",
        )


def _too_many(chosen: Collection[str]) -> Iterator[Problem]:
    if len(chosen) > MOST_WITHOUT_YES:
        yield Problem(
            f"{len(chosen):,} points would be submitted", hint="add --yes to submit more than 1,000"
        )


def _by_hand(name: str, states: Mapping[str, PointState], seen: Seen) -> Iterator[Problem]:
    """Arrays of this name in the queue that have no record, so their points are unknown."""
    known = {str(one.job_id) for one in seen.submissions}
    running = {one.job_id for one in states.values() if one.in_queue}
    arrays = {
        job.array_id
        for job_id, job in (seen.queued or {}).items()
        if job.array_index and job.name == name and job.user_id == os.getuid()
        if job.array_id not in known and not has_token(job.comment) and job_id not in running
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
