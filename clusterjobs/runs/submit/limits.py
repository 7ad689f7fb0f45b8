"""The limits of the running Slurm that decide how a sweep is submitted: `scontrol show config`."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple

from clusterjobs.errors import one_problem
from clusterjobs.runs.run import Run


class Limits(NamedTuple):
    """`max_array_size`: one more than the largest index of an array. `max_jobs`: in the queue.

    None if unknown. `hides_jobs`: squeue shows users only their own jobs (PrivateData).
    """

    max_array_size: int | None = None
    max_jobs: int | None = None
    hides_jobs: bool = False


def slurm_limits() -> Limits:
    """The limits; unknown if Slurm does not answer: sbatch then reports the problem."""
    try:
        done = subprocess.run(["scontrol", "show", "config"], capture_output=True, check=False)
    except FileNotFoundError:
        return Limits()
    return read_limits(done.stdout.decode(errors="replace"))


def read_limits(text: str) -> Limits:
    """The limits in the output of `scontrol show config`."""
    values = dict(re.findall(r"(?m)^(\w+) *= *(.*?) *$", text))
    private = values.get("PrivateData", "").lower().split(",")
    return Limits(
        _number(values.get("MaxArraySize")),
        _number(values.get("MaxJobCount")),
        "jobs" in private or "all" in private,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


# ------------------------------------------------------------------ slurm arrays
#
# Fits the arrays of a sweep to the limits of the running Slurm.


def fitted_to_slurm(run: Run) -> Run:
    """The run with arrays that Slurm takes.

    Raises InputError if its points wait each for the same point of another sweep, and are not the
    tasks of their own indexes: Slurm compares tasks (aftercorr), so they would wait for others.
    """
    size = slurm_limits().max_array_size
    fitted = run.fitting(size)
    for number, need in enumerate(run.spec.needs):
        if need.on == "each" and any(
            task.key and task.task != task.point.point.index for _, task in fitted.tasks
        ):
            most = fitted.max_array_size
            raise one_problem(
                f"on: each waits for the same task, and an array of this Slurm has at most {most} "
                f"(MaxArraySize): {len(run.points)} points are several arrays",
                run.loaded.source.locate(("needs", number)),
                f"needs[{number}]",
                "divide the sweep in two specs, or write on: success",
            )
    return fitted
