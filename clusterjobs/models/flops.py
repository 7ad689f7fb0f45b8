"""FLOPs of a training step, as the publications count them: 2 for a multiply-add.

Attention is counted without its causal half, as Megatron-LM until March 2025, MosaicML and
torchtitan count it. Two conventions differ by up to the attention's share.
"""

from __future__ import annotations

from clusterjobs.models.records import Layout, ModelShape

TRAINING_PASSES = 3  # forward, and twice the forward's work backward


def forward_flops(model: ModelShape, sequences: float) -> float:
    """Layers, attention's scores and values, and the head, of the forward pass.

    With f = 4h and no biases it is arXiv 2104.04473, equation 3: 24·B·s·L·h²·(1 + s/6h + V/12Lh).
    """
    head = 2 * model.hidden * model.vocab * model.predicted_share
    return sequences * model.sequence * (_layer_flops(model) + head)


def model_flops(model: ModelShape, sequences: float) -> float:
    """FLOPs of a step of `sequences` without recomputation: what MFU counts."""
    return TRAINING_PASSES * forward_flops(model, sequences)


def hardware_flops(model: ModelShape, layout: Layout) -> float:
    """The same with what is computed again: what HFU counts (arXiv 2205.05198)."""
    batch = layout.global_batch
    token_count = batch * model.sequence
    scores = token_count * model.layers * _attention_flops(model)
    again = {
        "full": token_count * _layer_flops(model),
        "half": token_count * _layer_flops(model) / 2,
        "selective_ops": token_count * _layer_flops(model) / 2,
        "selective": scores,
    }.get(layout.recompute, 0.0)
    return model_flops(model, batch) + again


def _attention_flops(model: ModelShape) -> float:
    """Scores and values of one token in one layer."""
    return 4.0 * model.sequence * model.query_width


def _layer_flops(model: ModelShape) -> float:
    return model.layers * (2 * layer_weights(model) + _attention_flops(model))


def layer_weights(model: ModelShape) -> float:
    """Weights of the matrices that a token passes in one layer (a mixture: of its top-k experts).

    Query and output 2hq, keys and values 2hk, and 2 or (gated) 3 matrices of h times the width.
    """
    width: float = model.ffn
    router = 0
    if model.experts:
        width = model.experts.top_k * model.experts.ffn + model.experts.shared_ffn
        router = model.hidden * model.experts.number
    matrices = 3 if model.gated else 2
    attention = 2 * (model.query_width + model.kv_width)
    return model.hidden * (attention + matrices * width) + router
