"""Follows the points of a sweep, or the tasks of an array: a line for each change of a state."""

from __future__ import annotations

import pathlib
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from clusterjobs.runs.follow import one_job as polled_queue
from clusterjobs.runs.follow.one_job import PolledQueue, job_end
from clusterjobs.runs.messages import Say, say_on_stderr
from clusterjobs.runs.states import (
    CANCELLED,
    COMPLETED,
    FAILED,
    LOST,
    PENDING,
    RUNNING,
    STATES,
    PointState,
)
from clusterjobs.slurm.jobs import in_words
from clusterjobs.slurm.queue import Queued, by_id

_SHARE = 10  # reading the folders of all points takes at most 1/10 of the time


class Followed(Protocol):
    """A sweep, or an array: the states of all of its points or tasks, by name."""

    def states(self, jobs: Sequence[Queued] | None) -> Mapping[str, PointState]: ...


class FollowedPoints:
    """Points of a sweep, or tasks of an array. `names`: only these; None: all.

    `states`: from the last look.
    """

    def __init__(
        self,
        followed: Followed,
        queue: PolledQueue,
        names: Collection[str] | None = None,
        say: Say = say_on_stderr,
    ) -> None:
        self.followed, self.names, self._say = followed, names, say
        self.states: dict[str, PointState] = {}
        self._queue = queue
        self._waiting = ""

    def follow(self, timeout: float | None = None) -> bool:
        """Report changes until all points have ended, and return whether all have completed.

        Raises TimeoutError after `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            start = time.monotonic()
            self._look()
            if not self._live_points:
                break
            took = time.monotonic() - start
            pause = max(polled_queue.POLL_SECONDS, _SHARE * took)
            if end is not None and time.monotonic() + pause > end:
                raise TimeoutError(f"{self.counts()} after {timeout:g} s")
            time.sleep(pause)
        return all(state.state == COMPLETED for state in self.states.values())

    @property
    def _live_points(self) -> list[str]:
        """The points that are pending or running."""
        return [n for n, state in self.states.items() if state.state in (PENDING, RUNNING)]

    def live_jobs(self) -> list[str]:
        """The ids of their jobs, as scancel takes them."""
        known = self._queue.jobs(now=True) or ()
        jobs = by_id(job for job in known if not job.has_ended)
        self.states = self._states()
        shown = {job.shown_id for job in jobs.values()}
        ids = [self.states[name].job_id for name in self._live_points]
        live = [jobs[one].shown_id if one in jobs else one for one in ids]
        return [one for one in dict.fromkeys(live) if one in shown]

    def counts(self) -> str:
        """`3 completed, 1 running`."""
        counts = Counter(state.state for state in self.states.values())
        return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])

    def _look(self) -> None:
        before, self.states = self.states, self._states()
        if any(
            state.state == LOST and before.get(name) != state for name, state in self.states.items()
        ):
            self._queue.jobs(now=True)  # somebody may have submitted it after the last squeue
            self.states = self._states()
        if not before:
            self._say(self.counts())
        for name, state in self.states.items():
            if name in before and before[name].state != state.state:
                self._say(f"{name}: {_in_words(state)} ({self.counts()})")
        self._say_why_nothing_runs()

    def _states(self) -> dict[str, PointState]:
        found = self.followed.states(self._queue.jobs())
        wanted = found if self.names is None else self.names
        return {name: state for name, state in found.items() if name in wanted}

    def _say_why_nothing_runs(self) -> None:
        reasons = Counter(self.states[name].reason for name in self._live_points)
        if any(state.state == RUNNING for state in self.states.values()) or not reasons:
            return
        reason = reasons.most_common(1)[0][0]
        if reason != self._waiting and reason not in ("", "None"):
            self._say(f"pending: {in_words(reason)}")
        self._waiting = reason


def _in_words(state: PointState) -> str:
    if state.state in (PENDING, RUNNING):
        return f"{state.state}, job {state.job_id}"
    code = state.attempt.exit_code if state.attempt else None
    shown = f", exit code {code}" if code else ""
    return f"{state.state}: {state.reason}{shown}" if state.reason else state.state


# ------------------------------------------------------------------ array tasks
#
# The tasks of a plain array of jobs, `sbatch: {array: 0-99}`, while they are followed.


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
