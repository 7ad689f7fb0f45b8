"""The time of the traffic between GPUs: tensor parallelism, pipeline messages, gradients, experts.

Volumes are those of ring algorithms, 2 bytes a value.
"""

from __future__ import annotations

from clusterjobs.foresight.formulas.constants import Constants
from clusterjobs.foresight.formulas.layer_time import layer_weights, tokens
from clusterjobs.models.records import Gpu, Layout, ModelShape, Network

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
    """Bytes/s that a node's network carries."""
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


def rank_expert_weights(model: ModelShape, layout: Layout) -> float:
    """Weights of one layer's experts on one rank."""
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
    weights = rank_weights(model, layout)
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
    seconds = 6 * weights * (group - 1) / group / rate
    total = max(seconds * (1 - overlap), seconds - 0.9 * stage) * layout.micro_batches
    if group < ranks:
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
