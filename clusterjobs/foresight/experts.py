"""What a mixture of experts adds to a layer's time. Knows no dense layer and no pipeline."""

from __future__ import annotations

from clusterjobs.foresight.constants import Constants
from clusterjobs.foresight.layer_time import tokens
from clusterjobs.foresight.records import Gpu, Layout, ModelShape, Network
from clusterjobs.foresight.traffic import node_rate, rank_expert_weights

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
    """Four all-to-alls of every token's top-k copies: to the experts and back, twice.

    Between nodes each GPU has its share of the network.
    """
    assert model.experts
    e = layout.expert
    volume = tokens(model, layout) * model.experts.top_k * 2 * model.hidden * (e - 1) / e
    if e * (layout.expert_tensor or layout.tensor) <= layout.gpus_per_node:
        rate = gpu.nvlink * ALL_TO_ALL_NVLINK
    else:
        rate = node_rate(network, constants) / layout.gpus_per_node
    return 4 * volume / rate if volume else 0.0
