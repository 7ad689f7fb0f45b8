"""Fits the arrays of a sweep to the limits of the running Slurm.

It asks Slurm for its limits; it must not submit.
"""

from __future__ import annotations

from clusterjobs.commands.sweeps.project import SweepProject
from clusterjobs.errors import one_problem
from clusterjobs.slurm.limits import slurm_limits


def fitted_to_slurm(project: SweepProject) -> SweepProject:
    """The sweep with arrays that Slurm takes.

    Raises InputError if its points wait each for the same point of another sweep, and are not the
    tasks of their own indexes: Slurm compares tasks (aftercorr), so they would wait for others.
    """
    size = slurm_limits().max_array_size
    fitted = project.fitting(size)
    for number, need in enumerate(project.experiment.needs):
        if need.on == "each" and any(
            task.key and task.task != task.point.point.index for _, task in fitted.tasks
        ):
            most = fitted.max_array_size
            raise one_problem(
                f"on: each waits for the same task, and an array of this Slurm has at most {most} "
                f"(MaxArraySize): {len(project.points)} points are several arrays",
                project.spec.source.locate(("needs", number)),
                f"needs[{number}]",
                "divide the sweep in two specs, or write on: success",
            )
    return fitted
