"""A short summary of a plan, printed after a render."""

from __future__ import annotations

from clusterjobs.commands.show import table
from clusterjobs.plan.plan import Plan
from clusterjobs.slurm_time import in_words, seconds_of
from clusterjobs.spec.references import show


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


def _time_limit(written: str | None) -> str:
    """The time limit with its meaning in words: to Slurm, 24:00 is 24 minutes."""
    if written is None:
        return "the partition's own; with none, the job may run for ever"
    seconds = seconds_of(written)
    return f"{written} ({in_words(seconds)})" if seconds else written
