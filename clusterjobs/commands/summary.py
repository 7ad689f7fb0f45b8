"""The plan in a few lines, for who has just rendered it."""

from __future__ import annotations

from clusterjobs.commands.show import table
from clusterjobs.plan.plan import Plan
from clusterjobs.render.job_script import describe


def summary(plan: Plan) -> str:
    """Name, shape and the numbers that cost nights when they are wrong."""
    shape, placement, samples = plan.shape, plan.placement, plan.samples
    rows = [
        ("job", f"{plan.experiment.name}: {describe(plan)}"),
        ("cluster", f"{plan.cluster_name}, partition {placement.queue}"),
        (
            "ranks",
            f"{shape.world_size} = nodes {shape.nodes} x ranks per node {shape.ranks_per_node}",
        ),
    ]
    if samples:
        rows.append(
            (
                "batch",
                f"{samples.global_} = micro {samples.micro} x accumulation "
                f"{samples.accumulation} x data parallel {shape.data_parallel}",
            )
        )
    rows.append(("time limit", _time_limit(plan.experiment.time_limit)))
    return table([(f"{name}:", value) for name, value in rows])


def _time_limit(written: str | None) -> str:
    """A bare number is minutes to Slurm, and not everybody's first guess."""
    if written is None:
        return "the partition's own; with none, the job may run for ever"
    return f"{written} minutes" if written.isdigit() else written
