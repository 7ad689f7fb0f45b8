"""The sweep that a job belongs to: its name and folder, and the variables for the ranks."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.frameworks.base import JOB_DIR, Variable, folder_on_the_node
from clusterjobs.sections.context import Context
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import variable

POINT = variable("point_name")


class SweepJob(NamedTuple):
    """`folder`: that of the sweep, with a folder for each point in it.

    `max_running`: tasks of an array at the same time. `max_failed`: points of an array that may
    fail before its pending tasks are held. None: any number.
    """

    name: str
    folder: str
    max_running: int | None
    max_failed: int | None

    @property
    def environment(self) -> tuple[Variable, ...]:
        """The variables that the ranks need."""
        return (
            Variable("CLUSTERJOBS_SWEEP", self.name, "the name of the sweep"),
            Variable("CLUSTERJOBS_POINT", POINT, "the name of this point"),
            Variable(
                "CLUSTERJOBS_RESULT", f"{JOB_DIR}/result.json", "the file for this point's results"
            ),
        )


def plan(context: Context) -> SweepJob | None:
    """The section `points`; None without a sweep."""
    spec, sweep = context.spec, context.spec.sweep
    if sweep is None:
        return None
    name = sweep.name or spec.name
    folder = folder_on_the_node(f"{spec.logs.path}/{name}")
    return SweepJob(name, folder, sweep.max_running, sweep.max_failed)


def job_folder(experiment: Experiment, sweep: SweepJob | None) -> str:
    """The job's own folder: of a sweep's job, below that of its point."""
    if sweep:
        return f"{sweep.folder}/{POINT}/{variable('SLURM_JOB_ID')}"
    return folder_on_the_node(f"{experiment.logs.path}/${{SLURM_JOB_ID}}")
