"""Tries every layout on each option of nodes, and keeps what was ruled out.

Thousands of layouts take a second: only their step time and memory are computed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterjobs.commands.advise.node_options import NodeOption, within_limit
from clusterjobs.commands.foresight.job import ForeseenJob
from clusterjobs.foresight.constants import range_factors
from clusterjobs.foresight.layouts import RuledOut, SearchSpace, layouts
from clusterjobs.foresight.memory import memory_share
from clusterjobs.foresight.ranking import DOES_NOT_FIT, Candidate
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
    job: ForeseenJob,
    space: SearchSpace,
    node_options: Mapping[str, NodeOption],
    nodes: Mapping[str, Sequence[int]],
) -> Found:
    """All candidates that fit or nearly fit. `nodes`: the numbers of nodes to try of each."""
    candidates: list[Candidate] = []
    out: dict[RuledOut, None] = {}
    tried = too_large = 0
    smallest = float("inf")
    steps = steps_of_job(job)
    for name, node_option in node_options.items():
        per_step = _usd_per_step_second(node_option, steps)
        for number in within_limit(node_option, nodes[name]):
            if isinstance(number, RuledOut):
                out[number] = None
                continue
            base = job.layout._replace(
                gpus=number * node_option.gpus_per_node, gpus_per_node=node_option.gpus_per_node
            )
            found, ruled = layouts(job.model, base, space)
            out |= dict.fromkeys(ruled)
            tried += len(found)
            for layout in found:
                share = memory_share(job.model, layout, node_option.gpu)
                if share > DOES_NOT_FIT:
                    too_large += 1
                    smallest = min(smallest, share)
                    continue
                seconds = step_seconds(job.model, layout, node_option.gpu, node_option.network)
                usd = per_step and seconds * per_step * number
                trust = region(job.model, layout, node_option.gpu, node_option.network).trust
                risk = range_factors(trust).high
                candidates.append(Candidate(name, number, layout, seconds, share, usd, risk))
    return Found(candidates, list(out), tried, too_large, smallest)


def steps_of_job(job: ForeseenJob) -> int:
    """Steps whose time and cost are compared."""
    if job.length is None:
        return STEPS_OF_A_PRICE
    return job.length.steps_with(job.layout.global_batch, job.model.sequence)


def _usd_per_step_second(node_option: NodeOption, steps: int) -> float | None:
    """USD of one node for all steps, per second that a step takes."""
    if isinstance(node_option.price, str):
        return None
    return node_option.price.usd_per_hour / 3600 * steps
