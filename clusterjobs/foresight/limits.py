"""What limits a step: its largest parts, and what would make each smaller."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.foresight.records import Layout
from clusterjobs.foresight.step import StepTime

NAMES = {
    "products": "matrix products",
    "attention": "attention",
    "elementwise": "norms, activations and residuals",
    "fixed": "fixed time per layer and micro batch",
    "recomputation": "recomputation",
    "head": "head and loss",
    "tensor": "tensor-parallel traffic",
    "experts": "experts",
    "bubble": "pipeline bubble",
    "messages": "pipeline messages",
    "data": "data-parallel traffic",
    "optimizer": "optimizer update",
    "other": "fixed time of a step",
}
ADVICE = {
    "products": "only more GPUs, or fp8 where the GPU has it, make it shorter",
    "elementwise": "sequence parallelism splits it",
    "fixed": "a larger micro batch makes it matter less",
    "recomputation": "less checkpointing saves it, if the memory allows",
    "head": "balance the stages: fewer layers on the last one",
    "tensor": "less tensor parallelism, never over nodes",
    "experts": "keep the experts of a group inside the node",
    "bubble": "more micro batches, fewer stages or virtual stages make it shorter",
    "messages": "fewer stages or virtual stages send less",
    "data": "more accumulation hides it; ZeRO-1 sends less than ZeRO-3",
    "optimizer": "ZeRO-1 splits it over the data-parallel ranks",
    "other": "a larger global batch makes it matter less",
}


class Part(NamedTuple):
    """A part of the step: a name of StepTime, its display name, seconds, share, and what helps."""

    key: str
    name: str
    seconds: float
    share: float
    advice: str

    def __str__(self) -> str:
        return f"{self.name} {self.share:.0%}"


def largest_parts(step: StepTime, layout: Layout, count: int = 3) -> tuple[Part, ...]:
    """The largest parts, the largest first."""
    total = step.seconds
    ordered = sorted(step._asdict().items(), key=lambda item: -item[1])
    return tuple(
        Part(key, NAMES[key], seconds, seconds / total, _advice(key, layout))
        for key, seconds in ordered[:count]
    )


def _advice(key: str, layout: Layout) -> str:
    if key == "attention":
        if layout.flash:
            return "it grows with the square of the sequence length"
        return "flash attention makes it shorter"
    return ADVICE[key]
