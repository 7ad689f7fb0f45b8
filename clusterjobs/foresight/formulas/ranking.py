"""Ranks candidates by time or cost, says which are ties, and finds the Pareto front.

A candidate is a layout on nodes with a price. It must not know spec keys or print anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from clusterjobs.models.records import Layout, ModelShape

# ------------------------------------------------------------------ ties
#
# Which layouts are within the model's error of each other. Knows times alone.


# In at least 90 % of the published groups of layouts of one job, the measured best lay within this
# of the predicted best.
TIE = 0.10


def tied(seconds: Sequence[float]) -> list[bool]:
    """For each layout of one job: is it within the model's error of the fastest?"""
    best = min(seconds, default=0.0)
    return [second <= best * (1 + TIE) for second in seconds]


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


# ------------------------------------------------------------------ remedies
#
# What would make a job fit into its GPUs, the change that costs least time first.


_MEGATRON = ("megatron-core", "megatron-2020", "megatron-deepspeed", "internevo")
_DEEPSPEED = ("deepspeed", "megatron-deepspeed")
_MOST_PARTS = 256  # that a micro batch is divided into
MOST = 3  # that are shown

ShareOf = Callable[[Layout], float]


class Change(NamedTuple):
    """A change of the layout: how a person would say it, and the result."""

    description: str
    layout: Layout


def remedies(model: ModelShape, layout: Layout, share_of: ShareOf) -> tuple[str, ...]:
    """Single changes after which it fits; else the changes that together make it fit.

    `share_of`: the share of the GPU's memory that a layout needs.
    """
    single: dict[str, str] = {}
    for one in _changes(model, layout):
        share = share_of(one.layout)
        if share < FITS and _kind(one.description) not in single:
            single[_kind(one.description)] = _shown(one.description, share)
    return tuple(single.values())[:MOST] or _together(model, layout, share_of)


def _together(model: ModelShape, layout: Layout, share_of: ShareOf) -> tuple[str, ...]:
    """The changes one after the other, as long as each of them lowers the need."""
    descriptions: list[str] = []
    share = share_of(layout)
    while share >= FITS and len(descriptions) < 12:
        lower = (
            (one, share_of(one.layout))
            for one in _changes(model, layout)
            if share_of(one.layout) < share * 0.99
        )
        found = next(lower, None)
        if found is None:
            return ("more GPUs, or GPUs with more memory: no change of the layout is enough",)
        change, share = found
        layout = change.layout
        descriptions.append(change.description)
    return (_shown(", ".join(_last_of_each(descriptions)), share),)


def _last_of_each(descriptions: list[str]) -> list[str]:
    """`micro batch 4, micro batch 2` is `micro batch 2`."""
    return list({_kind(one): one for one in descriptions}.values())


def _kind(description: str) -> str:
    return description.rstrip("0123456789 ")


def _shown(description: str, share: float) -> str:
    return f"{description}: {100 * share:.0f} % of the memory"


def _changes(model: ModelShape, layout: Layout) -> Iterator[Change]:
    """Single changes, the cheapest first: those that also make it faster, then free ones."""
    if not layout.flash and layout.engine not in ("fairseq", "megatron-2020"):
        yield Change("flash attention", layout._replace(flash=True))
    if layout.tensor > 1 and not layout.sequence_parallel and layout.engine == "megatron-core":
        yield Change("sequence parallelism", layout._replace(sequence_parallel=True))
    can_share = layout.gradient_ranks > 1
    if can_share and layout.zero == 0 and layout.engine in ("megatron-core", *_DEEPSPEED):
        name = "a distributed optimizer" if layout.engine == "megatron-core" else "ZeRO stage 1"
        yield Change(name, layout._replace(zero=1))
    for parts in range(2, min(layout.micro_batch, _MOST_PARTS) + 1):
        size, rest = divmod(layout.micro_batch, parts)
        if not rest:
            yield Change(f"micro batch {size}", layout._replace(micro_batch=size))
    if layout.recompute in ("none", "selective", "selective_ops"):
        if layout.recompute == "none" and not layout.flash:
            changed = layout._replace(recompute="selective")
            yield Change("recomputation of the attention", changed)
        yield Change("recomputation of all activations", layout._replace(recompute="full"))
    yield from _more_sharding(model, layout, can_share)
    if (
        layout.engine in _DEEPSPEED
        and layout.zero
        and layout.pipeline == 1
        and layout.offload == "none"
    ):
        yield Change("the optimizer in the host's memory", layout._replace(offload="optimizer"))


def _more_sharding(model: ModelShape, layout: Layout, can_share: bool) -> Iterator[Change]:
    """What adds traffic: ZeRO 2 and 3, FSDP, and then more model parallelism."""
    if can_share and layout.pipeline == 1 and layout.engine == "deepspeed":
        for stage in range(max(2, layout.zero + 1), 4):
            yield Change(f"ZeRO stage {stage}", layout._replace(zero=stage))
    if can_share and layout.engine == "ddp":
        yield Change("FSDP in place of DDP", layout._replace(engine="fsdp", zero=3))
    if layout.engine not in _MEGATRON:
        return
    tensor, pipeline = 2 * layout.tensor, 2 * layout.pipeline
    divides = model.heads % tensor == 0 and model.kv_heads % tensor == 0
    if tensor <= layout.gpus_per_node and layout.data % 2 == 0 and divides:
        yield Change(f"tensor {tensor}", layout._replace(tensor=tensor))
    if layout.data % 2 == 0 and model.layers % pipeline == 0 and layout.zero < 2:
        yield Change(f"pipeline {pipeline}", layout._replace(pipeline=pipeline))
