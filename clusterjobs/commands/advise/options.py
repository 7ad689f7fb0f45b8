"""The options that advise shows: each with its ranges, its settings and why it stands there."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.commands.advise.choices import Setting
from clusterjobs.commands.advise.node_options import NodeOption
from clusterjobs.commands.advise.search import steps_of_job
from clusterjobs.commands.foresight.job import ForeseenJob
from clusterjobs.foresight.cost import Cost, cost_of
from clusterjobs.foresight.limits import NAMES
from clusterjobs.foresight.memory import Memory, estimate_memory
from clusterjobs.foresight.ranking import Candidate
from clusterjobs.foresight.records import Layout, Range
from clusterjobs.foresight.speed import Speed, estimate_speed


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
