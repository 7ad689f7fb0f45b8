"""Ranks candidates by time or cost, says which are ties, and finds the Pareto front.

A candidate is a layout on nodes with a price. It must not know spec keys or print anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from clusterjobs.foresight.records import Layout
from clusterjobs.foresight.ties import TIE


class Candidate(NamedTuple):
    """A layout on some nodes. `seconds` of a step; `share` of a GPU's memory that it needs.

    `usd` of the training, or of 1,000 steps if its length is unknown; None without a price.
    `where`: the cluster or GPU. `risk`: the pessimistic end of the range, as a factor.
    """

    where: str
    nodes: int
    layout: Layout
    seconds: float
    share: float
    usd: float | None = None
    risk: float = 1.0

    @property
    def fits(self) -> str:
        return verdict_of(self.share)


FITS, DOES_NOT_FIT = 0.90, 1.15


def verdict_of(share: float) -> str:
    """Fits below 0.90 of the memory, not above 1.15: the published rows' errors of memory."""
    if share < FITS:
        return "fits"
    return "borderline" if share <= DOES_NOT_FIT else "does_not_fit"


def complexity(candidate: Candidate) -> tuple[float, ...]:
    """The simpler of tied layouts comes first: less model parallelism, less recomputation."""
    layout = candidate.layout
    levels = {"none": 0, "selective": 1, "selective_ops": 1, "half": 2, "full": 3}
    return (
        candidate.share >= FITS,
        layout.tensor * layout.pipeline,
        layout.pipeline,
        layout.virtual_pipeline,
        levels[layout.recompute],
        layout.zero >= 2,
        layout.zero,
        candidate.seconds,
    )


def ranked(candidates: Sequence[Candidate], by_cost: bool = False) -> list[Candidate]:
    """The best pessimistic end first: what nobody measured has a wide range.

    Those that probably do not fit come last. Those that tie with the best are sorted by how simple
    they are.
    """
    value = _value(by_cost)
    known = [one for one in candidates if value(one) is not None]
    ordered = sorted(known, key=lambda one: (one.share > 1, value(one) or 0.0))
    tied = ties(ordered, by_cost)
    return [*sorted(ordered[:tied], key=complexity), *ordered[tied:]]


def ties(ordered: Sequence[Candidate], by_cost: bool = False) -> int:
    """How many cannot be told apart from the best: the first so many of ranked candidates."""
    value = _value(by_cost)
    if not ordered:
        return 0
    group = [one for one in ordered if (one.share > 1) == (ordered[0].share > 1)]
    best = min(value(one) or 0.0 for one in group)
    return sum((value(one) or 0.0) <= best * (1 + TIE) for one in group)


def pareto_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other beats in both time and cost, the fastest first."""
    front: list[Candidate] = []
    priced = [one for one in candidates if one.usd is not None]
    for one in sorted(priced, key=lambda one: (one.seconds, one.usd or 0.0)):
        if not front or (one.usd or 0.0) < (front[-1].usd or 0.0):
            front.append(one)
    return front


def _value(by_cost: bool) -> Callable[[Candidate], float | None]:
    if by_cost:
        return lambda one: one.usd and one.usd * one.risk
    return lambda one: one.seconds * one.risk
