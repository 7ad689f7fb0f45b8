"""Cancels jobs: scancel."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from clusterjobs.errors import one_problem

_ERROR = re.compile(r"job id ([0-9]+(?:_[0-9]+)?): *(.*)")
_AT_A_TIME = 1_000  # ids on one command line


def cancel(job_ids: Sequence[str]) -> dict[str, str]:
    """Cancel jobs, and return scancel's error message for each job that it could not cancel.

    `123_4` is one task of an array. Raises InputError without scancel, or if it fails for all.
    """
    refused: dict[str, str] = {}
    for first in range(0, len(job_ids), _AT_A_TIME):
        refused |= _cancel(job_ids[first : first + _AT_A_TIME])
    return refused


def _cancel(job_ids: Sequence[str]) -> dict[str, str]:
    try:
        done = subprocess.run(["scancel", "--", *job_ids], capture_output=True, check=False)
    except FileNotFoundError:
        raise one_problem(
            "there is no scancel here", hint="run it on the cluster's head node"
        ) from None
    said = done.stderr.decode(errors="replace")
    refused = {job_id: why for job_id, why in _ERROR.findall(said) if job_id in job_ids}
    if done.returncode and not refused:
        lines = said.strip().splitlines() or ["it failed without a message"]
        refused = dict.fromkeys(job_ids, "; ".join(line.strip() for line in lines))
    return refused
