"""What a mixture of experts adds to a layer's time. Knows no dense layer and no pipeline."""

from __future__ import annotations

from clusterjobs.foresight.constants import Constants
from clusterjobs.foresight.layer_time import tokens
from clusterjobs.foresight.records import Gpu, Layout, ModelShape, Network
from clusterjobs.foresight.traffic import node_rate, peer_rate, rank_expert_weights

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
    return ROUTING + exchange + PASSES * 2 * weights / gpu.memory_bandwidth


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
