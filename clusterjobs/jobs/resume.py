"""Which points of a sweep are submitted, and why the others are not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from clusterjobs.jobs.sweeps import (
    CANCELLED,
    CHANGED,
    COMPLETED,
    FAILED,
    LOST,
    MISSING,
    STATES,
    PointState,
)

_TO_RUN = frozenset((MISSING, FAILED, CANCELLED, LOST, CHANGED))  # without a result of this spec
_FAILED = frozenset((FAILED, LOST))


class Wanted(NamedTuple):
    """The options of `submit`. `names`: only these points; None: all.

    `completed`: also points with a result. `failed`: only points that failed or are lost.
    """

    names: Collection[str] | None = None
    completed: bool = False
    failed: bool = False


def points_to_submit(states: Mapping[str, PointState], wanted: Wanted) -> tuple[str, ...]:
    """The names of the points to submit, in their order. Never one that is in the queue."""
    names = states if wanted.names is None else wanted.names
    chosen = {*_FAILED} if wanted.failed else {*_TO_RUN}
    if wanted.completed:
        chosen.add(COMPLETED)
    return tuple(
        name
        for name, one in states.items()
        if name in names and one.state in chosen and not one.in_queue
    )


def counts_in_words(states: Iterable[PointState]) -> str:
    """`9 completed, 2 running, 1 failed`; "no points" if there are none."""
    counts = Counter(one.state for one in states)
    return ", ".join(f"{counts[one]:,} {one}" for one in STATES if counts[one]) or "no points"
