"""Cancels jobs: scancel."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence

from clusterjobs.errors import one_problem
from clusterjobs.slurm.queue import joined_tasks

_ERROR = re.compile(r"job id ([0-9]+(?:_(?:[0-9]+|\[[0-9,-]+\]))?): *(.*)")
_AT_A_TIME = 1_000  # words on one command line


def cancel(job_ids: Sequence[str]) -> dict[str, str]:
    """Cancel jobs, and return scancel's error message for each job that it could not cancel.

    `123_4` is one task of an array; many tasks of one array are one word for scancel. Raises
    InputError without scancel.
    """
    joined = joined_tasks(job_ids)
    refused = _cancel(joined)
    if not any(len(joined[word]) > 1 for word in refused):
        return refused
    # One task has ended meanwhile, perhaps: ask for each, so that the answer is right for all.
    each = [job_id for word in refused for job_id in joined[word]]
    return _cancel({job_id: [job_id] for job_id in each})


def _cancel(words: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Call scancel, as often as needed for so many words."""
    refused: dict[str, str] = {}
    for first in range(0, len(words), _AT_A_TIME):
        refused |= _call(list(words)[first : first + _AT_A_TIME])
    return refused


def _call(words: Sequence[str]) -> dict[str, str]:
    try:
        done = subprocess.run(["scancel", "--", *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise one_problem(
            "there is no scancel here", hint="run it on the cluster's head node"
        ) from None
    said = done.stderr.decode(errors="replace")
    refused = {word: why for word, why in _ERROR.findall(said) if word in words}
    if done.returncode and not refused:
        lines = said.strip().splitlines() or ["it failed without a message"]
        refused = dict.fromkeys(words, "; ".join(line.strip() for line in lines))
    return refused
