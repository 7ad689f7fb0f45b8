"""The options that advise shows: each with its ranges, its settings and why it stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterjobs.foresight.advise.choices import NodeOption, Setting, within_limit
from clusterjobs.foresight.formulas.constants import range_factors
from clusterjobs.foresight.formulas.layouts import RuledOut, SearchSpace, layouts
from clusterjobs.foresight.formulas.memory import Memory, estimate_memory, memory_share
from clusterjobs.foresight.formulas.ranking import DOES_NOT_FIT, Candidate
from clusterjobs.foresight.formulas.speed import NAMES, Speed, estimate_speed, region
from clusterjobs.foresight.formulas.step import step_seconds
from clusterjobs.foresight.formulas.training_time import Cost, cost_of
from clusterjobs.foresight.job import ForeseenJob
from clusterjobs.models.records import Layout, Range

# ------------------------------------------------------------------ search
#
# Tries every layout on each option of nodes, and keeps what was ruled out.
#
# Thousands of layouts take a second: only their step time and memory are computed here.


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


class Option(NamedTuple):
    """A layout on some nodes. `seconds` and `cost`: of all steps, without start and saves."""

    candidate: Candidate
    node_option: NodeOption
    settings: tuple[Setting, ...]
    speed: Speed
    memory: Memory
    seconds: Range
    cost: Cost | None
    is_tie: bool
    why: str = ""

    @property
    def layout(self) -> Layout:
        return self.candidate.layout


def option_of(
    one: Candidate,
    node_option: NodeOption,
    settings: list[Setting],
    job: ForeseenJob,
    is_tie: bool,
) -> Option:
    speed = estimate_speed(
        job.model, one.layout, node_option.gpu, node_option.network, with_nearest=False
    )
    assert speed  # advise refuses offloaded states
    memory = estimate_memory(job.model, one.layout, node_option.gpu)
    seconds = speed.step_seconds.times(steps_of_job(job))
    cost = None
    if not isinstance(node_option.price, str):
        cost = cost_of(seconds, one.nodes, node_option.price, None)
    return Option(one, node_option, tuple(settings), speed, memory, seconds, cost, is_tie)


def with_reasons(options: list[Option]) -> list[Option]:
    """Why each stands where it stands: the first by what limits it, others by what they lose."""
    if not options:
        return []
    first = options[0]
    reasons = [", ".join(map(str, first.speed.limits))]
    reasons += [_against(one, first) for one in options[1:]]
    doubts = ["" if one.speed.validated else ", not validated" for one in options]
    return [
        one._replace(why=why + doubt)
        for one, why, doubt in zip(options, reasons, doubts, strict=True)
    ]


def _against(one: Option, first: Option) -> str:
    """The part of the step that grows most against the first, and the one that shrinks most."""
    same_gpus = (
        one.layout.gpus == first.layout.gpus and one.node_option.gpu == first.node_option.gpu
    )
    parts = first.speed.parts._asdict()
    changes = {NAMES[key]: new - parts[key] for key, new in one.speed.parts._asdict().items()}
    whole = first.speed.step_seconds.mid
    change = one.speed.step_seconds.mid / whole - 1
    text = f"step {change:+.0%}"
    if same_gpus and changes:
        more = max(changes, key=lambda name: changes[name])
        less = min(changes, key=lambda name: changes[name])
        named = [name for name in (more, less) if abs(changes[name]) > 0.01 * whole]
        text += "".join(f", {name} {changes[name] / whole:+.0%}" for name in dict.fromkeys(named))
    if one.memory.verdict != first.memory.verdict:
        text += f", memory {one.memory.verdict.replace('_', ' ')}"
    return text


def layout_text(layout: Layout) -> str:
    """`t8 p4 v2 sp, zero 1, micro 2, no recomputation`: what an option decides."""
    sizes = [f"tensor {layout.tensor}", f"pipeline {layout.pipeline}"]
    if layout.virtual_pipeline > 1:
        sizes.append(f"virtual {layout.virtual_pipeline}")
    if layout.sequence_parallel:
        sizes.append("sequence")
    if layout.context > 1:
        sizes.append(f"context {layout.context}")
    if layout.expert > 1:
        sizes.append(f"expert {layout.expert}")
    sizes.append(f"micro {layout.micro_batch}")
    if layout.zero:
        sizes.append(f"ZeRO {layout.zero}")
    if layout.recompute != "none":
        sizes.append(f"recompute {layout.recompute.replace('_', ' ')}")
    return ", ".join(sizes)
