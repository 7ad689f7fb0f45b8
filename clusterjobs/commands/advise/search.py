"""Tries every layout on every place, and keeps what was ruled out.

Thousands of layouts take a second: only their step time and memory are computed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterjobs.commands.advise.places import Place, within_limit
from clusterjobs.commands.foresight.job import ForeseenJob
from clusterjobs.foresight.constants import range_factors
from clusterjobs.foresight.layouts import Freedom, RuledOut, layouts
from clusterjobs.foresight.memory import memory_share
from clusterjobs.foresight.ranking import FITS_NOT, Candidate
from clusterjobs.foresight.region import region
from clusterjobs.foresight.step import step_seconds

STEPS_OF_A_PRICE = 1000  # the cost of so many steps is compared if the length is unknown


class Found(NamedTuple):
    """What a search found. `tried` counts all layouts; `too_large` those that do not fit."""

    candidates: list[Candidate]
    ruled_out: list[RuledOut]
    tried: int
    too_large: int
    smallest_share: float


def search(
    job: ForeseenJob, free: Freedom, places: Mapping[str, Place], nodes: Mapping[str, Sequence[int]]
) -> Found:
    """All candidates that fit or nearly fit. `nodes`: the numbers of nodes of each place."""
    candidates: list[Candidate] = []
    out: dict[RuledOut, None] = {}
    tried = too_large = 0
    smallest = float("inf")
    steps = steps_of_job(job)
    for name, place in places.items():
        per_step = _usd_per_step_second(place, steps)
        for number in within_limit(place, nodes[name]):
            if isinstance(number, RuledOut):
                out[number] = None
                continue
            base = job.layout._replace(
                gpus=number * place.gpus_per_node, gpus_per_node=place.gpus_per_node
            )
            found, ruled = layouts(job.model, base, free)
            out |= dict.fromkeys(ruled)
            tried += len(found)
            for layout in found:
                share = memory_share(job.model, layout, place.gpu)
                if share > FITS_NOT:
                    too_large += 1
                    smallest = min(smallest, share)
                    continue
                seconds = step_seconds(job.model, layout, place.gpu, place.network)
                usd = per_step and seconds * per_step * number
                trust = region(job.model, layout, place.gpu, place.network).trust
                risk = range_factors(trust).high
                candidates.append(Candidate(name, number, layout, seconds, share, usd, risk))
    return Found(candidates, list(out), tried, too_large, smallest)


def steps_of_job(job: ForeseenJob) -> int:
    """Steps whose time and cost are compared."""
    if job.length is None:
        return STEPS_OF_A_PRICE
    return job.length.steps_with(job.layout.global_batch, job.model.sequence)


def _usd_per_step_second(place: Place, steps: int) -> float | None:
    """USD of one node for all steps, per second that a step takes."""
    if isinstance(place.price, str):
        return None
    return place.price.usd_per_hour / 3600 * steps
