"""The memory of one GPU, by part, for the worst rank: whether it fits, and what would make it fit.

Bytes inside, GiB outside.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from clusterjobs.foresight.formulas.memory_parts import (
    FSDP,
    RankParameters,
    States,
    activation_bytes,
    adapter_parameters,
    frozen_bytes,
    largest_block,
    layer_parameters,
    logit_bytes,
    rank_parameters,
    states_per_parameter,
    with_offload,
)
from clusterjobs.models.records import Gpu, Layout, ModelShape, Range

GIB = 2**30
# What PyTorch allocates before the first layer: workspaces of cuBLAS and of the random generator.
ALWAYS_ALLOCATED = 110e6
# CUDA's context and NCCL's buffers, beside PyTorch's allocator.
CONTEXT = 1.5 * GIB
# PyTorch reserves more than it allocates, since freed blocks have other sizes than new requests.
RESERVED_PER_ALLOCATED = 1.06
# DeepSpeed's buckets of 5e8 elements (reduce_bucket_size, allgather_bucket_size): published cards
# of Megatron-DeepSpeed show 1.22 x allocated + 2.5 GiB, and 3.3 GiB more with a single stage. No
# bucket is larger than the gradients of the rank: the two need 1e9 parameters to be full.
DEEPSPEED_PER_ALLOCATED = 1.22
DEEPSPEED_BUCKETS = 1.0 * GIB
DEEPSPEED_BUCKETS_ONE_STAGE = 3.3 * GIB
PARAMETERS_OF_BUCKETS = 1e9
# GiB that a process can use. The rest of the nominal memory is the driver's.
VISIBLE_GIB = {
    "V100-16": 15.78,
    "V100-32": 31.74,
    "A100-40": 39.39,
    "A100-80": 79.15,
    "H100-80": 79.10,
    "H200-141": 139.8,
}
VISIBLE_SHARE = 0.985  # of other GPUs
UNCERTAINTY = (0.90, 1.15)  # 80 % of the published memory figures lie within these factors


class Parts(NamedTuple):
    """Bytes of one rank. `communication`: gathered layers, buckets and fragmentation."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    communication: float
    context: float

    @property
    def allocated(self) -> float:
        """What PyTorch's `max_memory_allocated` shows."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits

    @property
    def total(self) -> float:
        """What the card shows."""
        return self.allocated + self.communication + self.context


class Memory(NamedTuple):
    """The memory of the worst rank in GiB, and the verdict: fits, borderline or does_not_fit.

    `capacity`: what a process can use. `margin`: the free share of it, negative if it is too small.
    `stage`: the pipeline stage of that rank. `host_gib`: memory of a node that offloading needs.
    """

    gib: Range
    capacity: float
    parts: dict[str, float]
    verdict: str
    margin: float
    stage: int
    host_gib: float = 0.0
    remedies: tuple[str, ...] = ()


def allocated_bytes(model: ModelShape, layout: Layout, stage: int) -> float:
    """What PyTorch allocates at most on a rank of `stage`, gathered layers included."""
    parts, gathered = _allocated(model, layout, stage)
    return parts.allocated + gathered


def stage_parts(model: ModelShape, layout: Layout, stage: int) -> Parts:
    """The memory of a rank of pipeline stage `stage`, as the card shows it."""
    parts, gathered = _allocated(model, layout, stage)
    allocated = parts.allocated + gathered
    further = allocated * (reserved_per_allocated(layout) - 1)
    if layout.engine == "megatron-deepspeed":
        further += DEEPSPEED_BUCKETS
        if layout.pipeline == 1:
            held = rank_parameters(model, layout, stage)
            full = min(1.0, (held.dense + held.experts) / PARAMETERS_OF_BUCKETS)
            further += DEEPSPEED_BUCKETS_ONE_STAGE * full
    return parts._replace(communication=gathered + further, context=CONTEXT)


class Worst(NamedTuple):
    """The rank that needs most. `fragmented`: bytes if one more of its largest block is reserved.

    A block that was freed in pieces cannot be used for one of the largest size, so PyTorch may
    reserve that again. The gradients that FSDP may keep are in it, too.
    """

    stage: int
    parts: Parts
    fragmented: float


def worst_rank(model: ModelShape, layout: Layout) -> Worst:
    """The first stage has most micro batches in flight, the last one the logits."""
    stages = (0, layout.pipeline - 1) if layout.pipeline > 1 else (0,)
    factor = reserved_per_allocated(layout)
    ranks = []
    for stage in stages:
        parts = stage_parts(model, layout, stage)
        block = factor * largest_block(model, layout, stage)
        if layout.gradient_sync is None:
            block += factor * whole_gradients(model, layout, stage)
        ranks.append(Worst(stage, parts, parts.total + block))
    worst = max(ranks, key=lambda one: one.parts.total)
    return worst._replace(fragmented=max(one.fragmented for one in ranks))


def whole_gradients(model: ModelShape, layout: Layout, stage: int) -> float:
    """Gradients in fp32 that FSDP keeps whole, if it shares them out only once a step.

    Accelerate and Hugging Face's Trainer do so while they accumulate (`no_sync`).
    """
    is_shared = (layout.zero_group or layout.gradient_ranks) > 1 and layout.pipeline == 1
    if layout.engine not in FSDP or layout.micro_batches <= 1 or not is_shared:
        return 0.0
    if layout.adapter_rank:
        return 4 * adapter_parameters(model, layout, stage)
    return 4 * rank_parameters(model, layout, stage).dense


def memory_share(model: ModelShape, layout: Layout, gpu: Gpu) -> float:
    """The share of the GPU's memory that `verdict_of` judges.

    A job that fits only without fragmentation counts as borderline.
    """
    return _share(worst_rank(model, layout), visible_gib(gpu) * GIB)


def _share(worst: Worst, capacity: float) -> float:
    share = worst.parts.total / capacity
    return share if share >= FITS else min(worst.fragmented / capacity, DOES_NOT_FIT)


def reserved_per_allocated(layout: Layout) -> float:
    deepspeed = layout.engine == "megatron-deepspeed"
    return DEEPSPEED_PER_ALLOCATED if deepspeed else RESERVED_PER_ALLOCATED


def visible_gib(gpu: Gpu) -> float:
    return VISIBLE_GIB.get(gpu.name, gpu.memory_gib * VISIBLE_SHARE)


def estimate_memory(model: ModelShape, layout: Layout, gpu: Gpu) -> Memory:
    """The memory of the worst rank, against that of the GPU."""
    worst = worst_rank(model, layout)
    mid, capacity = worst.parts.total / GIB, visible_gib(gpu)
    low, high = UNCERTAINTY
    verdict = verdict_of(_share(worst, capacity * GIB))
    found: tuple[str, ...] = ()
    if verdict != "fits":
        found = remedies(model, layout, lambda other: memory_share(model, other, gpu))
    return Memory(
        gib=Range(low * mid, mid, max(high * mid, worst.fragmented / GIB)),
        capacity=capacity,
        parts={name: size / GIB for name, size in worst.parts._asdict().items()},
        verdict=verdict,
        margin=1 - mid / capacity,
        stage=worst.stage,
        host_gib=host_bytes(model, layout) / GIB,
        remedies=found,
    )


FITS, DOES_NOT_FIT = 0.90, 1.15


def verdict_of(share: float) -> str:
    """Fits below 0.90 of the memory, not above 1.15: the published rows' errors of memory."""
    if share < FITS:
        return "fits"
    return "borderline" if share <= DOES_NOT_FIT else "does_not_fit"


def host_bytes(model: ModelShape, layout: Layout) -> float:
    """Memory of a node for what is offloaded, with DeepSpeed's own factor of 1.5 for buffers.

    Source: DeepSpeed's estimate_zero2_model_states_mem_needs and the same of ZeRO-3.
    """
    if layout.offload == "none":
        return 0.0
    held = rank_parameters(model, layout, 0)
    parameters = (held.dense + held.experts) * layout.tensor * layout.pipeline
    per = 18.0 if layout.offload == "parameters" else 16.0
    return parameters * per / layout.nodes * 1.5


def _allocated(model: ModelShape, layout: Layout, stage: int) -> tuple[Parts, float]:
    """The parts, and the bytes of gathered layers, which are counted as communication."""
    held = rank_parameters(model, layout, stage)
    shards = layout.zero_group or layout.gradient_ranks
    per = with_offload(states_per_parameter(layout, shards), layout)
    weights, gradients, optimizer = (one * held.dense for one in per)
    if held.experts:
        of_experts = layout.expert * (layout.expert_tensor or layout.tensor)
        expert_ranks = max(1, layout.gradient_ranks * layout.tensor // of_experts)
        per = with_offload(states_per_parameter(layout, expert_ranks), layout)
        weights += per.weights * held.experts
        gradients += per.gradients * held.experts
        optimizer += per.optimizer * held.experts
    if layout.adapter_rank:
        weights, gradients, optimizer = _with_adapter(model, layout, stage, held, shards)
    if layout.gradient_sync == "last":
        gradients += whole_gradients(model, layout, stage)
    logits = logit_bytes(model, layout, stage)
    activations = activation_bytes(model, layout, stage, logits) + ALWAYS_ALLOCATED
    parts = Parts(weights, gradients, optimizer, activations, logits, 0.0, 0.0)
    return parts, _gathered_bytes(model, layout, held, shards)


def _with_adapter(
    model: ModelShape, layout: Layout, stage: int, held: RankParameters, shards: float
) -> States:
    """Frozen weights, which only FSDP and ZeRO-3 divide, and all states of the adapter."""
    tables = held.table * (1 if model.tied else 2) if layout.pipeline == 1 else held.table
    frozen = frozen_bytes(layout) * max(0.0, held.dense + held.experts - tables) + 2 * tables
    if layout.engine in FSDP or layout.zero == 3:
        frozen /= shards
    own = adapter_parameters(model, layout, stage)
    states = states_per_parameter(layout, shards)
    return States(frozen + own * states.weights, own * states.gradients, own * states.optimizer)


def _gathered_bytes(
    model: ModelShape, layout: Layout, held: RankParameters, shards: float
) -> float:
    """Layers that ZeRO-3 and FSDP gather while they compute them.

    FSDP holds the layer in use and the next one in 16 bit, and their gradients; with pipeline
    stages, all layers stay gathered: 16-bit parameters, gradients of a micro batch, and their sum
    in fp32. DeepSpeed: 4 bytes for each parameter of the largest layer.
    """
    if shards <= 1:
        return 0.0
    of_layer = layer_parameters(model)
    layer = (of_layer.attention + of_layer.feed_forward) / layout.tensor
    if layout.adapter_rank:  # the layer in use and the next one, without gradients
        return 2 * 2 * layer if layout.engine in FSDP or layout.zero == 3 else 0.0
    if layout.engine in FSDP:
        return 8 * held.dense if layout.pipeline > 1 else 8 * layer
    if layout.zero == 3:
        return 4 * max(layer, held.table)
    return 0.0


# Remedies: changes of the layout after which it fits, the cheapest first.

_MEGATRON = ("megatron-core", "megatron-2020", "megatron-deepspeed", "internevo")
_DEEPSPEED = ("deepspeed", "megatron-deepspeed")
_MOST_PARTS = 256  # that a micro batch is divided into
MOST = 3  # that are shown

ShareOf = Callable[[Layout], float]


Change = tuple[str, Layout]  # how a person would say it, and the result


def remedies(model: ModelShape, layout: Layout, share_of: ShareOf) -> tuple[str, ...]:
    """Single changes after which it fits; else the changes that together make it fit.

    `share_of`: the share of the GPU's memory that a layout needs.
    """
    single: dict[str, str] = {}
    for description, changed in _changes(model, layout):
        share = share_of(changed)
        if share < FITS:
            single.setdefault(_kind(description), _shown(description, share))
    return tuple(single.values())[:MOST] or _together(model, layout, share_of)


def _together(model: ModelShape, layout: Layout, share_of: ShareOf) -> tuple[str, ...]:
    """The changes one after the other, as long as each of them lowers the need."""
    descriptions: list[str] = []
    share = share_of(layout)
    while share >= FITS and len(descriptions) < 12:
        changes = _changes(model, layout)
        lower = next((one for one in changes if share_of(one[1]) < share * 0.99), None)
        if lower is None:
            return ("more GPUs, or GPUs with more memory: no change of the layout is enough",)
        description, layout = lower
        share = share_of(layout)
        descriptions.append(description)
    # `micro batch 4, micro batch 2` is `micro batch 2`.
    *others, last = {_kind(one): one for one in descriptions}.values()
    return (_shown(f"{', '.join(others)} and {last} together" if others else last, share),)


def _kind(description: str) -> str:
    return description.rstrip("0123456789 ")


def _shown(description: str, share: float) -> str:
    return f"{description}: {100 * share:.0f} % of the memory"


def _changes(model: ModelShape, layout: Layout) -> Iterator[Change]:
    """Single changes, the cheapest first: those that also make it faster, then free ones."""
    if not layout.flash and layout.engine not in ("fairseq", "megatron-2020"):
        yield ("flash attention", layout._replace(flash=True))
    if layout.tensor > 1 and not layout.sequence_parallel and layout.engine == "megatron-core":
        yield ("sequence parallelism", layout._replace(sequence_parallel=True))
    can_share = layout.gradient_ranks > 1
    if can_share and layout.zero == 0 and layout.engine in ("megatron-core", *_DEEPSPEED):
        name = "a distributed optimizer" if layout.engine == "megatron-core" else "ZeRO stage 1"
        yield (name, layout._replace(zero=1))
    for parts in range(2, min(layout.micro_batch, _MOST_PARTS) + 1):
        size, rest = divmod(layout.micro_batch, parts)
        if not rest:
            yield (f"micro batch {size}", layout._replace(micro_batch=size))
    if layout.recompute in ("none", "selective", "selective_ops"):
        if layout.recompute == "none" and not layout.flash:
            changed = layout._replace(recompute="selective")
            yield ("recomputation of the attention", changed)
        yield ("recomputation of all activations", layout._replace(recompute="full"))
    yield from _more_sharding(model, layout, can_share)
    if (
        layout.engine in _DEEPSPEED
        and layout.zero
        and layout.pipeline == 1
        and layout.offload == "none"
    ):
        yield ("the optimizer in the host's memory", layout._replace(offload="optimizer"))


def _more_sharding(model: ModelShape, layout: Layout, can_share: bool) -> Iterator[Change]:
    """What adds traffic: ZeRO 2 and 3, FSDP, and then more model parallelism."""
    if can_share and layout.pipeline == 1 and layout.engine == "deepspeed":
        for stage in range(max(2, layout.zero + 1), 4):
            yield (f"ZeRO stage {stage}", layout._replace(zero=stage))
    if can_share and layout.engine == "ddp":
        yield ("FSDP in place of DDP", layout._replace(engine="fsdp", zero=3))
    if layout.engine not in _MEGATRON:
        return
    tensor, pipeline = 2 * layout.tensor, 2 * layout.pipeline
    divides = model.heads % tensor == 0 and model.kv_heads % tensor == 0
    if tensor <= layout.gpus_per_node and layout.data % 2 == 0 and divides:
        yield (f"tensor {tensor}", layout._replace(tensor=tensor))
    if layout.data % 2 == 0 and model.layers % pipeline == 0 and layout.zero < 2:
        yield (f"pipeline {pipeline}", layout._replace(pipeline=pipeline))
