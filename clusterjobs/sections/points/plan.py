"""The sweep that a job belongs to: its name and folder, and the variables for the ranks."""

from __future__ import annotations

from clusterjobs.frameworks.base import folder_on_the_node
from clusterjobs.sections.context import Context
from clusterjobs.sections.plan import POINT, SweepJob
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import Value, joined, variable


def plan(context: Context) -> SweepJob | None:
    """The section `points`; None without a sweep."""
    spec, sweep = context.spec, context.spec.sweep
    if sweep is None:
        return None
    name = sweep.name or spec.name
    folder = folder_on_the_node(joined(spec.logs.path, "/", name))
    return SweepJob(name, folder, sweep.max_running, sweep.max_failed)


def job_folder(spec: Experiment, sweep: SweepJob | None) -> Value:
    """The job's own folder: of a sweep's job, below that of its point."""
    if sweep:
        return joined(sweep.folder, "/", POINT, "/", variable("SLURM_JOB_ID"))
    return folder_on_the_node(joined(spec.logs.path, "/${SLURM_JOB_ID}"))
