"""A short summary of a run, printed after a render."""

from __future__ import annotations

from clusterjobs.console.show import table
from clusterjobs.counted import counted
from clusterjobs.runs.run import Run
from clusterjobs.sections.plan import Plan
from clusterjobs.slurm.time import in_words, seconds_of
from clusterjobs.text import show


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
    rows += [(role.name, role.where(plan.placement.all_nodes)) for role in plan.roles]
    if plan.container:
        rows.append(("container", f"{show(plan.container.image)}, by {plan.container.runtime}"))
    rows.append(("time limit", _time_limit(job.time_limit)))
    return table([(f"{name}:", value) for name, value in rows])


def run_summary(run: Run) -> str:
    """The job; of a sweep, its points and scripts, and the job of its first point."""
    first = f"{scripts_table(run)}\n\nthe first point, {run.points[0].point.name}\n"
    return f"{first if run.sweep else ''}{summary(run.plan)}"


def scripts_table(run: Run) -> str:
    """The number of points in each script, and why it is a script of its own."""
    arrays, files = run.arrays, run.script_names
    scripts = "one script" if len(files) == 1 else f"{len(files)} scripts"
    rows = [("sweep:", f"{run.name}: {counted(len(run.points), 'point')} in {scripts}")]
    if len(files) > 1:
        for file, array in zip(files, arrays, strict=True):
            points = counted(len(array.table.points), "point")
            rows.append((f"  {file}", f"{points}: {array.reason}" if array.reason else points))
    return table(rows)


def _time_limit(written: str | None) -> str:
    """The time limit with its meaning in words: to Slurm, 24:00 is 24 minutes."""
    if written is None:
        return "the partition's own; with none, the job may run for ever"
    seconds = seconds_of(written)
    return f"{written} ({in_words(seconds)})" if seconds else written
