"""The time of one training step, from the layer, the pipeline's schedule and the traffic."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from clusterjobs.foresight.formulas.constants import Constants, fitted_constants
from clusterjobs.foresight.formulas.layer_time import layer_time, tokens
from clusterjobs.foresight.formulas.traffic import (
    data_time,
    message_time,
    node_rate,
    peer_rate,
    rank_expert_weights,
    rank_weights,
    tensor_time,
)
from clusterjobs.models.records import Gpu, Layout, ModelShape, Network

# ------------------------------------------------------------------ experts
#
# What a mixture of experts adds to a layer's time. Knows no dense layer and no pipeline.


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
    return logits * (6 * model.hidden / rate + LOGIT_BYTES / gpu.memory_bandwidth)


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
    traffic = OPTIMIZER_BYTES.get(layout.optimizer, ADAM_BYTES) * rank_weights(model, layout)
    return traffic / shards / gpu.memory_bandwidth
