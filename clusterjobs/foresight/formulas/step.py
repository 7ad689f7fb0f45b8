"""The time of one training step, from the layer, the pipeline's schedule and the traffic."""

from math import ceil
from typing import NamedTuple

from clusterjobs.foresight.formulas.constants import Constants, fitted_constants
from clusterjobs.foresight.formulas.layer_time import layer_time, tokens
from clusterjobs.foresight.formulas.memory_parts import adapter_parameters, frozen_bytes
from clusterjobs.models.records import Gpu, Layout, ModelShape, Network, layer_weights

ROUTING = 2e-3  # seconds of a layer and micro batch, for router, permutation and grouped products
ALL_TO_ALL_NVLINK = 0.5  # share of NVLink's rate that an all-to-all reaches
PASSES = 3  # forward, and two products backward


def expert_time(
    model: ModelShape, layout: Layout, gpu: Gpu, network: Network, constants: Constants
) -> float:
    """Seconds of one layer and micro batch: routing, all-to-all, and reading the experts."""
    if model.experts is None:
        return 0.0
    exchange = exchange_time(model, layout, gpu, network, constants)
    weights = rank_expert_weights(model, layout)
    seconds = ROUTING + exchange + PASSES * 2 * weights / gpu.memory_bandwidth
    return constants.experts[gpu.family] * seconds


def exchange_time(
    model: ModelShape, layout: Layout, gpu: Gpu, network: Network, constants: Constants
) -> float:
    """Four all-to-alls: every token's copies to its experts and back, forward and backward.

    Tensor parallelism splits the tokens (Megatron asks for sequence parallelism there). Over
    nodes a token is sent once to each node that has one of its experts (DeepEP, Hybrid-EP).
    """
    assert model.experts
    e, copies = layout.expert, model.experts.top_k
    volume = 2.0 * tokens(model, layout) / layout.tensor * model.hidden
    nodes = -(-e * (layout.expert_tensor or 1) // layout.gpus_per_node)
    if nodes == 1:
        return 4 * volume * copies * (e - 1) / e / (peer_rate(gpu) * ALL_TO_ALL_NVLINK)
    remote_nodes = (nodes - 1) * (1 - (1 - 1 / nodes) ** copies)
    rate = node_rate(network, constants) / layout.gpus_per_node
    return 4 * volume * remote_nodes / rate


# Bytes of memory traffic an optimizer moves for each of its parameters: fp32 weights, moments and
# gradients read, weights and moments written, and the 16-bit copy.
OPTIMIZER_BYTES = {"lamb": 60}
ADAM_BYTES = 34
LOGIT_BYTES = 12  # bytes of memory traffic for each logit: softmax, loss and gradient


class StepTime(NamedTuple):
    """Seconds of a step by effect; they add up. `bubble` is the pipeline's idle time."""

    products: float
    attention: float
    elementwise: float
    fixed: float
    recomputation: float
    head: float
    tensor: float
    experts: float
    bubble: float
    messages: float
    data: float
    optimizer: float
    other: float

    @property
    def seconds(self) -> float:
        return sum(self)


def step_seconds(model: ModelShape, layout: Layout, gpu: Gpu, network: Network) -> float:
    """Seconds of one step, with the fitted constants."""
    return step_time(model, layout, gpu, network, fitted_constants()).seconds


def step_time(
    model: ModelShape, layout: Layout, gpu: Gpu, network: Network, constants: Constants
) -> StepTime:
    """A step is m micro batches through the slowest stage, the bubble, the gradients, the update.

    The bubble of the schedule 1F1B is (p-1)/v stages (arXiv 2104.04473).
    """
    layer = layer_time(model, layout, gpu, constants)
    tensor = tensor_time(model, layout, gpu, network, constants)
    head = head_time(model, layout, gpu, constants)
    experts = expert_time(model, layout, gpu, network, constants)
    each = sum(layer) + tensor + experts
    layers, has_head = slowest_stage(model, layout, each, head)
    head *= has_head
    stage = layers * each + head
    messages = message_time(model, layout, gpu, network, constants)
    m = layout.micro_batches
    n = layers * m
    return StepTime(
        products=layer.products * n,
        attention=layer.attention * n,
        elementwise=layer.elementwise * n,
        fixed=layer.fixed * n,
        recomputation=layer.recomputation * n,
        head=head * m,
        tensor=tensor * n,
        experts=experts * n,
        bubble=(stage + messages) * (layout.pipeline - 1) / layout.virtual_pipeline,
        messages=messages * m,
        data=data_time(model, layout, gpu, network, constants, stage),
        optimizer=optimizer_time(model, layout, gpu),
        other=constants.step,
    )


def head_time(model: ModelShape, layout: Layout, gpu: Gpu, constants: Constants) -> float:
    """Logits of one micro batch, forward and backward: three products in 16 bit, and the loss."""
    logits = tokens(model, layout) * model.predicted_share * model.vocab / layout.tensor
    rate = gpu.peak_16bit * constants.products[gpu.family]
    work = (4 if layout.adapter_rank else 6) * model.hidden
    return logits * (work / rate + LOGIT_BYTES / gpu.memory_bandwidth)


def slowest_stage(
    model: ModelShape, layout: Layout, layer: float, head: float
) -> tuple[float, bool]:
    """Layers of the slowest stage, and whether it has the head.

    Megatron can count embedding and head as layers: 126 layers on 16 stages are 128/16 each.
    """
    p = layout.pipeline
    if p > 1 and model.layers % p and (model.layers + 2) % p == 0:
        full = (model.layers + 2) / p
        return (full, False) if layer > head else (full - 1, True)
    return ceil(model.layers / p), True


def optimizer_time(model: ModelShape, layout: Layout, gpu: Gpu) -> float:
    """The update is bound by memory; ZeRO splits it over its ranks."""
    shards = (layout.zero_group or layout.gradient_ranks) if layout.zero else 1
    traffic = OPTIMIZER_BYTES.get(layout.optimizer, ADAM_BYTES) * trained_weights(model, layout)
    return traffic / shards / gpu.memory_bandwidth


# Engines that run data-parallel traffic beside the backward pass, bucket by bucket.
OVERLAPPING = ("megatron-core", "internevo", "jax", "fsdp", "fairscale")
# Engines that hide tensor-parallel traffic behind the products, and send one message a stage.
TENSOR_OVERLAPPING = ("megatron-core", "internevo", "jax")

BUCKET = 5e8  # bytes of gradients in one collective, DeepSpeed's reduce_bucket_size
PCIE = 16e9  # bytes/s between GPUs without NVLink: 16 lanes of PCIe 3
UNKNOWN_NETWORK_GBPS = 1.0


def nvlink_rate(gpu: Gpu, layout: Layout, group: int, constants: Constants) -> float:
    """Bytes/s of a rank in a ring of `group` GPUs of a node.

    A V100 node of 8 is a hybrid cube mesh: a ring of two GPUs has one or two of six links.
    """
    if gpu.family == "V100" and layout.gpus_per_node <= 8 and group > 1:
        return {2: 22e9, 4: 65e9}.get(group, 120e9)
    return peer_rate(gpu) * constants.nvlink


def peer_rate(gpu: Gpu) -> float:
    """Bytes/s one way between two GPUs of a node."""
    return gpu.nvlink or PCIE


def node_rate(network: Network, constants: Constants) -> float:
    return (network.gbps or UNKNOWN_NETWORK_GBPS) / 8 * 1e9 * constants.network


def leaves_node(layout: Layout, group: int) -> bool:
    """Does a group of data-parallel ranks reach over nodes?

    Tensor-parallel ranks are neighbours, then come the data-parallel ones, then the stages: the
    order of Megatron, DeepSpeed and torchtitan.
    """
    return layout.nodes > 1 and group * layout.tensor > layout.gpus_per_node


def tensor_time(
    model: ModelShape, layout: Layout, gpu: Gpu, network: Network, constants: Constants
) -> float:
    """All-reduces of one layer and micro batch that are not hidden.

    Two forward and two backward, two more where the forward pass is computed again (arXiv
    1909.08053); each moves 2(t-1)/t of the activations. Sequence parallelism moves as much.
    """
    t = layout.tensor
    if t == 1:
        return 0.0
    collectives = 6 if layout.recompute == "full" else 4
    volume = collectives * 2 * (t - 1) / t * 2 * tokens(model, layout) * model.hidden
    if t > layout.gpus_per_node:
        nodes = -(-t // layout.gpus_per_node)
        share = t / (layout.gpus_per_node * nodes)
        return volume / (node_rate(network, constants) * share)
    seconds = volume / nvlink_rate(gpu, layout, t, constants)
    if layout.engine in TENSOR_OVERLAPPING:
        seconds *= 1 - constants.tensor_overlap
    return seconds


def message_time(
    model: ModelShape, layout: Layout, gpu: Gpu, network: Network, constants: Constants
) -> float:
    """Messages between pipeline stages for one micro batch, forward and backward."""
    if layout.pipeline == 1:
        return 0.0
    per_node = min(layout.gpus_per_node, layout.gpus)
    rate = node_rate(network, constants) / per_node if layout.nodes > 1 else peer_rate(gpu) * 0.7
    scattered = layout.engine == "megatron-2020" or (
        layout.sequence_parallel and layout.engine not in ("fsdp", "deepspeed")
    )
    volume = 4 * tokens(model, layout) * model.hidden / (layout.tensor if scattered else 1)
    rounds = 1 if layout.engine in TENSOR_OVERLAPPING else layout.virtual_pipeline
    return volume / rate * (1 - constants.messages_overlap) * rounds


def rank_weights(model: ModelShape, layout: Layout) -> float:
    """Weights whose gradients one rank shares: its layers', and its part of the tables."""
    tables = model.vocab * model.hidden * (1 if model.tied else 2)
    if model.experts is None:
        weights = model.layers * layer_weights(model) + tables
        return weights / (layout.tensor * layout.pipeline)
    routed = model.experts.top_k * (3 if model.gated else 2) * model.hidden * model.experts.ffn
    dense = model.layers * (layer_weights(model) - routed) + tables
    experts = model.layers * rank_expert_weights(model, layout) / layout.pipeline
    return dense / (layout.tensor * layout.pipeline) + experts


def trained_weights(model: ModelShape, layout: Layout) -> float:
    """The weights of a rank that have gradients: with an adapter, only the adapter's."""
    if layout.adapter_rank:
        return adapter_parameters(model, layout, 0)
    return rank_weights(model, layout)


def rank_expert_weights(model: ModelShape, layout: Layout) -> float:
    assert model.experts
    matrices = 3 if model.gated else 2
    split = layout.expert * (layout.expert_tensor or layout.tensor)
    return model.experts.number / split * matrices * model.hidden * model.experts.ffn


def data_time(
    model: ModelShape,
    layout: Layout,
    gpu: Gpu,
    network: Network,
    constants: Constants,
    stage: float,
) -> float:
    """Gradients and sharded weights, as far as computing does not hide them.

    `stage` is the seconds that a stage computes for one micro batch.
    """
    ranks = layout.gradient_ranks
    if ranks == 1:
        return 0.0
    if layout.zero == 3:
        return _sharded_time(model, layout, gpu, network, constants, stage)
    weights = trained_weights(model, layout)
    seconds = 4 * weights * (ranks - 1) / ranks / _data_rate(layout, gpu, network, constants)
    earlier = _earlier_time(layout, seconds, stage, constants)
    seconds += _ring_latency(layout, weights, constants)
    if layout.engine in TENSOR_OVERLAPPING:
        behind = stage * min(layout.micro_batches, layout.pipeline)
    else:
        behind = stage * 2 / 3  # the backward pass of the last micro batch
    return earlier + max(seconds * (1 - _overlap(layout, constants)), seconds - behind)


def _earlier_time(layout: Layout, seconds: float, stage: float, constants: Constants) -> float:
    """ZeRO-2 reduces the gradients of the earlier micro batches, too, since it keeps its part only.

    Source: DeepSpeed's runtime/zero/stage_1_and_2.py, which reduces before the boundary if it
    partitions gradients. FSDP's SHARD_GRAD_OP gathers the weights again as well. `seconds` is what
    a reduction and a gathering take.
    """
    if layout.zero != 2:
        return 0.0
    each = seconds if layout.engine in ("fsdp", "fairscale") else seconds / 2
    exposed = max(each * (1 - _overlap(layout, constants)), each - stage * 2 / 3)
    return (layout.micro_batches - 1) * exposed


def _sharded_time(
    model: ModelShape,
    layout: Layout,
    gpu: Gpu,
    network: Network,
    constants: Constants,
    stage: float,
) -> float:
    """ZeRO-3 and FSDP: weights twice and gradients once, for every micro batch (arXiv 1910.02054).

    With hybrid sharding the shards' gradients are reduced over the replicas once a step.
    """
    ranks = layout.gradient_ranks
    group = layout.zero_group or ranks
    weights = rank_weights(model, layout)
    per_node = min(layout.gpus_per_node, layout.gpus)
    local = max(1, min(ranks, layout.gpus_per_node // layout.tensor))
    inside = nvlink_rate(gpu, layout, min(ranks, layout.gpus_per_node), constants)
    node = node_rate(network, constants)
    over_nodes = leaves_node(layout, group)
    rate = min(node * min(local, group) / per_node, inside) if over_nodes else inside
    is_new = layout.engine in OVERLAPPING
    overlap = constants.overlap_sharded if is_new else constants.overlap_old
    bytes_of = 4 / 2 * frozen_bytes(layout) if layout.adapter_rank else 6.0
    seconds = bytes_of * weights * (group - 1) / group / rate
    total = max(seconds * (1 - overlap), seconds - 0.9 * stage) * layout.micro_batches
    if group < ranks and not layout.adapter_rank:
        rate = min(node * local / per_node, inside) if leaves_node(layout, ranks) else inside
        total += 4 * weights / group / rate * (1 - overlap)
    return total


def _data_rate(layout: Layout, gpu: Gpu, network: Network, constants: Constants) -> float:
    """Bytes/s of one rank in the ring of its gradients: the ranks of a node share its network."""
    ranks = layout.gradient_ranks
    inside = nvlink_rate(gpu, layout, min(ranks, layout.gpus_per_node), constants)
    if not leaves_node(layout, ranks):
        return inside
    local = max(1, min(ranks, layout.gpus_per_node // layout.tensor))
    per_node = min(layout.gpus_per_node, layout.gpus)
    return min(node_rate(network, constants) * local / per_node, inside)


def _overlap(layout: Layout, constants: Constants) -> float:
    return constants.overlap if layout.engine in OVERLAPPING else constants.overlap_old


def _ring_latency(layout: Layout, weights: float, constants: Constants) -> float:
    """A ring passes every rank twice, for each bucket.

    Megatron-Core and JAX cross nodes once: their published step times hardly grow with the ranks.
    InternEvo's grow with each rank.
    """
    ranks = layout.gradient_ranks
    if not leaves_node(layout, ranks):
        return 0.0
    ring: float = layout.zero_group if layout.zero == 1 and layout.zero_group else ranks
    if layout.engine in ("megatron-core", "jax"):
        ring = layout.nodes / layout.pipeline
    return 2 * max(1.0, 2 * weights / BUCKET) * ring * constants.ring_latency
