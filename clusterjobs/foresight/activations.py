"""Bytes of activations and logits that a rank keeps for its backward pass.

Source of the formulas: arXiv 2205.05198, for any head size, feed-forward width and kv heads;
bytes of 16-bit activations. It must not know parameters.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.foresight.parameters import layers_of_stage
from clusterjobs.foresight.records import Layout, ModelShape

# Bytes per logit of the loss, by engine: PyTorch in eager mode keeps bf16 logits, an fp32
# log-softmax and two gradients (14); compiled code 10; Megatron's vocabulary-parallel loss 6;
# fused losses 4 (flash-attn, Liger, llm-foundry).
LOGIT_BYTES = {
    "fsdp": 14.0,
    "fairscale": 14.0,
    "jax": 10.0,
    "ddp": 10.0,
    "deepspeed": 10.0,
    "fairseq": 10.0,
    "horovod": 10.0,
}
MEGATRON_LOGIT_BYTES = 6.0
FSDP = ("fsdp", "fairscale")
# torchtitan's selection keeps every second matrix product; compiled code fuses the rest.
SELECTIVE_OPS_SHARE = 0.50
SELECTIVE_OPS_COMPILED_SHARE = 0.43


class LayerActivations(NamedTuple):
    """Bytes of one layer and micro batch: all of it, its attention core, and its input."""

    whole: float
    core: float
    input: float


def tokens_of_micro_batch(model: ModelShape, layout: Layout) -> float:
    """Tokens of a micro batch on one rank; context parallelism divides them."""
    return model.sequence * layout.micro_batch / layout.context


def layer_activations(model: ModelShape, layout: Layout) -> LayerActivations:
    """What one layer keeps for one micro batch."""
    h, t, tokens = model.hidden, layout.tensor, tokens_of_micro_batch(model, layout)
    q, kv, per_ffn = model.query_width, model.kv_width, 6 if model.gated else 4
    undivided = 8 * h + (2 * h if layout.hidden_dropout else 0)
    parts = 2 * (q + 2 * kv) + 2 * q
    routed = 0.0
    if experts := model.experts:
        routed = experts.top_k * (4 * h + per_ffn * experts.ffn) + per_ffn * experts.shared_ffn
    else:
        parts += per_ffn * model.ffn
    if layout.flash:
        core = 4.0 * model.heads
    else:
        scores = model.heads * model.sequence / layout.context
        core = scores * (5 if layout.attention_dropout else 2)
    sequence_ranks = t if layout.sequence_parallel else 1
    if layout.sequence_parallel and layout.engine in FSDP:
        # torch keeps the gathered inputs of both parts; Megatron gathers them again.
        undivided += 4 * h * (t - 1)
    whole = tokens * (undivided / sequence_ranks + (parts + core + routed) / t)
    size = 2.0 if layout.precision == "fp32" else 1.0
    return LayerActivations(
        whole * size, tokens * core / t * size, 2 * tokens * h / sequence_ranks * size
    )


def micro_batches_in_flight(layout: Layout, stage: int) -> float:
    """Micro batches whose activations a stage holds at once: 1F1B, or interleaved stages.

    Source: arXiv 2104.04473, section 2.2.
    """
    m, p, v = layout.micro_batches, layout.pipeline, layout.virtual_pipeline
    if p == 1:
        return 1.0
    if v > 1:
        return min(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1) / v
    return min(m, p - stage)


def logit_bytes(model: ModelShape, layout: Layout, stage: int) -> float:
    """The loss and the logits, on the last stage."""
    if stage != layout.pipeline - 1:
        return 0.0
    tokens = tokens_of_micro_batch(model, layout)
    return bytes_per_logit(layout) * _logits(model, layout) + 4 * tokens * model.hidden


def bytes_per_logit(layout: Layout) -> float:
    """The bytes that the loss needs for each logit."""
    return layout.logit_bytes or LOGIT_BYTES.get(layout.engine, MEGATRON_LOGIT_BYTES)


def largest_block(model: ModelShape, layout: Layout, stage: int) -> float:
    """The largest single tensor: logits in fp32, or the scores of attention without flash."""
    block = 0.0
    if stage == layout.pipeline - 1:
        size = 4 if bytes_per_logit(layout) >= MEGATRON_LOGIT_BYTES else 2
        block = size * _logits(model, layout)
    if not layout.flash:
        tokens = tokens_of_micro_batch(model, layout)
        scores = tokens * model.heads * model.sequence / layout.context / layout.tensor
        block = max(block, 2 * scores)
    return block


def _logits(model: ModelShape, layout: Layout) -> float:
    tokens = tokens_of_micro_batch(model, layout)
    return tokens * model.vocab / layout.tensor * model.predicted_share


def activation_bytes(model: ModelShape, layout: Layout, stage: int, logits: float) -> float:
    """Activations beside the logits, at the moment when both together are largest."""
    layer = layer_activations(model, layout)
    count = micro_batches_in_flight(layout, stage) * layers_of_stage(model, layout, stage)
    kept = layer.input
    if layout.recompute == "full":
        # One layer is computed again after the logits are freed; Megatron-Core keeps them longer.
        again = layer.whole if layout.engine == "megatron-core" else max(0.0, layer.whole - logits)
        return count * kept + again
    if layout.recompute == "half":
        return count * (layer.whole + kept) / 2
    if layout.recompute == "selective_ops":
        share = SELECTIVE_OPS_COMPILED_SHARE if layout.compiled else SELECTIVE_OPS_SHARE
        return count * share * layer.whole
    if layout.recompute == "selective" and not layout.flash:
        return count * (layer.whole - layer.core)
    return count * layer.whole
