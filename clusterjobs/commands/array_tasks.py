"""The tasks of a plain array of jobs, `sbatch: {array: 0-99}`, while they are followed.

It reads the folders of tasks that have ended; it must not ask Slurm, nor print.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from clusterjobs.commands.follow.job_end import job_end
from clusterjobs.jobs.sweeps import CANCELLED, COMPLETED, FAILED, PENDING, RUNNING, PointState
from clusterjobs.slurm.queue import Queued


class ArrayTasks:
    """The tasks of the array `array_id`, whose folders are `<logs>/<own id>`."""

    def __init__(self, array_id: str, logs: pathlib.Path) -> None:
        self.array_id, self.logs = array_id, logs
        self._last: dict[str, Queued] = {}

    def states(self, jobs: Sequence[Queued] | None) -> dict[str, PointState]:
        """The state of each task that Slurm knows or knew: `4711_3` -> state."""
        found = {job.shown_id: job for job in tasks_of(self.array_id, jobs or ())}
        self._last |= found
        return {
            name: _live(job) if name in found and not job.has_ended else self._ended(job)
            for name, job in self._last.items()
        }

    def _ended(self, job: Queued) -> PointState:
        folder = self.logs / job.job_id
        end = job_end(folder if folder.is_dir() else None, job)
        state = FAILED if end.exit_code else COMPLETED
        state = CANCELLED if end.reason == "cancelled" else state
        reason = "" if state == COMPLETED else f"{end.reason}, exit code {end.exit_code}"
        return PointState(state, reason, job.shown_id, folder)


def tasks_of(array_id: str, jobs: Sequence[Queued]) -> list[Queued]:
    """The tasks of the array; none if the id is that of a plain job."""
    return [job for job in jobs if job.array_id == array_id and job.array_index]


def _live(job: Queued) -> PointState:
    state = PENDING if job.state == "PENDING" else RUNNING
    return PointState(state, job.reason, job.shown_id)
