"""The jobs that Slurm knows, from one call of squeue, as `status` needs them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from clusterjobs.slurm.queue import Queued, by_id, known_jobs


class Queue(NamedTuple):
    """`queued`: the jobs that have not ended, by id; None without Slurm. `ended`: those that Slurm
    still remembers."""

    queued: Mapping[str, Queued] | None
    ended: tuple[Queued, ...]

    def ended_states(self, name: str) -> dict[str, str]:
        """Id -> state of this user's jobs of that name that have ended."""
        return {job.job_id: job.state for job in self.my_ended if job.name == name}

    @property
    def my_queued(self) -> dict[str, Queued]:
        """This user's jobs that have not ended, by id."""
        jobs = (self.queued or {}).items()
        return {job_id: job for job_id, job in jobs if job.user_id == os.getuid()}

    @property
    def my_ended(self) -> list[Queued]:
        """This user's jobs that have ended, as far as Slurm remembers them."""
        return [job for job in self.ended if job.user_id == os.getuid()]


def ask_queue() -> Queue:
    """One call of squeue."""
    jobs = known_jobs()
    if jobs is None:
        return Queue(None, ())
    return Queue(
        by_id(job for job in jobs if not job.has_ended),
        tuple(job for job in jobs if job.has_ended),
    )
