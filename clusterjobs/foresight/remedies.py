"""What would make a job fit into its GPUs, the change that costs least time first.

It knows which changes an engine allows. It must not know how memory is computed: it is given a
function for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from clusterjobs.foresight.ranking import FITS
from clusterjobs.foresight.records import Layout, ModelShape

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
