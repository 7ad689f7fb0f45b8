"""Which layouts are equally fast as far as anybody can tell. Knows times alone."""

from __future__ import annotations

from collections.abc import Sequence

# In 33 published groups of layouts of one job, the measured best always lay within this of the
# layout that the model ranks first.
TIE = 0.10


def tied(seconds: Sequence[float]) -> list[bool]:
    """For each layout of one job: is it within the model's error of the fastest?"""
    best = min(seconds, default=0.0)
    return [second <= best * (1 + TIE) for second in seconds]
