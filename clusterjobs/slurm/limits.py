"""The limits of the running Slurm that decide how a sweep is submitted: `scontrol show config`."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple


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
