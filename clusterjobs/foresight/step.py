"""The time of one training step, from the layer, the pipeline's schedule and the traffic."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from clusterjobs.foresight.constants import Constants, fitted_constants
from clusterjobs.foresight.experts import expert_time
from clusterjobs.foresight.layer_time import layer_time, tokens
from clusterjobs.foresight.records import Gpu, Layout, ModelShape, Network
from clusterjobs.foresight.traffic import data_time, message_time, rank_weights, tensor_time

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
