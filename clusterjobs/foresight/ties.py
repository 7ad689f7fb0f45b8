"""Which layouts are within the model's error of each other. Knows times alone."""

from __future__ import annotations

from collections.abc import Sequence

# In at least 90 % of the published groups of layouts of one job, the measured best lay within this
# of the predicted best.
TIE = 0.10


def tied(seconds: Sequence[float]) -> list[bool]:
    """For each layout of one job: is it within the model's error of the fastest?"""
    best = min(seconds, default=0.0)
    return [second <= best * (1 + TIE) for second in seconds]
