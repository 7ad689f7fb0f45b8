"""A limit of this site: jobs of many GPU-hours are warned of, and refused with --strict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterjobs.errors import Problem
from clusterjobs.plugins import Block, Check, Command, PlannedJob
from clusterjobs.slurm.options import seconds_of

MOST = 100  # GPU-hours of a job


def gpu_hours(job: PlannedJob) -> float:
    """What the job may use until its time limit; 0 without one."""
    shape, limit = job.plan.placement.shape, job.plan.job.time_limit
    return shape.nodes * shape.gpus_per_node * (seconds_of(limit or "0") or 0) / 3600


def check(jobs: Sequence[PlannedJob], strict: bool) -> Iterator[Problem]:
    found = [job for job in jobs if gpu_hours(job) > MOST]
    if found:
        what = f"{gpu_hours(found[0]):,.0f} GPU-hours are more than {MOST}"
        where = found[0].loaded.source.locate(("time_limit",))
        names = tuple(one.loaded.point.name for one in found if one.loaded.point)
        points = names if len(found) < len(jobs) else ()
        yield Problem(what, where, "time_limit", "shorten it", warning=not strict, points=points)


def text(job: PlannedJob) -> Iterator[str]:
    yield f"budget\n  GPU-hours   {gpu_hours(job):,.0f} of {MOST}"


def data(job: PlannedJob) -> dict[str, float]:
    return {"gpu_hours": gpu_hours(job)}


COMMAND = Command(
    "budget",
    "clusterjobs_accelerate.budget_command:budget",
    "Show the GPU-hours that a spec may use.",
    after="plan",
)
CHECK = Check("budget", check)
BLOCK = Block("budget", text, data)
