"""A short summary of a plan, printed after a render."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterjobs.commands.show import table
from clusterjobs.commands.sweep_files import script_names
from clusterjobs.counted import counted
from clusterjobs.plan.plan import Plan
from clusterjobs.slurm_time import in_words, seconds_of
from clusterjobs.spec.references import show

if TYPE_CHECKING:
    from clusterjobs.commands.sweep_project import SweepProject


def summary(plan: Plan) -> str:
    """The job, its cluster, and the numbers that matter most."""
    job, shape, batch = plan.job, plan.placement.shape, plan.batch
    rows = [
        ("job", f"{job.name}: {job.title}"),
        ("cluster", f"{job.cluster}, partition {plan.placement.partition}"),
        (
            "ranks",
            f"{shape.world_size} = nodes {shape.nodes} x ranks per node {shape.ranks_per_node}",
        ),
    ]
    if batch:
        rows.append(
            (
                "batch",
                f"{batch.global_} = micro {batch.micro} x accumulation "
                f"{batch.accumulation} x data parallel {plan.parallelism.data}",
            )
        )
    if plan.container:
        rows.append(("container", f"{show(plan.container.image)}, by {plan.container.runtime}"))
    rows.append(("time limit", _time_limit(job.time_limit)))
    return table([(f"{name}:", value) for name, value in rows])


def sweep_summary(project: SweepProject) -> str:
    """The points and scripts of a sweep, and the job of its first script."""
    arrays = project.arrays
    said = f"{project.name}: {counted(len(project.points), 'point')} in "
    rows = [("sweep:", said + ("one script" if len(arrays) == 1 else f"{len(arrays)} scripts"))]
    if len(arrays) > 1:
        for file, array in zip(script_names(len(arrays)), arrays, strict=True):
            points = counted(len(array.table.points), "point")
            rows.append((f"  {file}", f"{points}: {array.reason}" if array.reason else points))
    first = project.points[0].point.name
    return f"{table(rows)}\n\nthe first point, {first}\n{summary(project.points[0].plan)}"


def _time_limit(written: str | None) -> str:
    """The time limit with its meaning in words: to Slurm, 24:00 is 24 minutes."""
    if written is None:
        return "the partition's own; with none, the job may run for ever"
    seconds = seconds_of(written)
    return f"{written} ({in_words(seconds)})" if seconds else written
