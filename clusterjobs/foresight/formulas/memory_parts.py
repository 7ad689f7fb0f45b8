"""What a rank holds: its parameters, and the bytes of their states, activations and logits.

Source of the counts of parameters: arXiv 2104.04473, eq. 2, and the modules of Hugging Face's
transformers for the biases and norms. Source of the formulas of activations: arXiv 2205.05198, for
any head size, feed-forward width and kv heads; bytes of 16-bit activations.
"""

from typing import NamedTuple

from clusterjobs.models.records import Layout, ModelShape


class LayerParameters(NamedTuple):
    """The parameters of one layer: matrices that tensor parallelism divides, and the rest.

    `experts`: the matrices of all routed experts. `router`: their gate, which every rank has.
    """

    attention: int
    feed_forward: int
    experts: int
    router: int
    divided_biases: int
    whole: int

    @property
    def total(self) -> int:
        return sum(self)


def layer_parameters(model: ModelShape) -> LayerParameters:
    """One layer: 2hq + 2hk + M·h·f, where M = 3 matrices if gated, else 2, and biases and norms."""
    h, q, kv, f = model.hidden, model.query_width, model.kv_width, model.ffn
    matrices = 3 if model.gated else 2
    experts = router = 0
    feed_forward = matrices * h * f
    if found := model.experts:
        experts, router = found.number * matrices * h * found.ffn, h * found.number
        feed_forward = matrices * h * found.shared_ffn
    attention_bias = model.attention_bias or ("all" if model.bias else "none")
    divided = q + 2 * kv if attention_bias != "none" else 0
    whole = model.norms * h * (1 if model.norm == "rms" else 2)
    whole += h if attention_bias == "all" else 0
    if model.bias and not model.experts:
        divided += (matrices - 1) * f
        whole += h
    return LayerParameters(2 * h * (q + kv), feed_forward, experts, router, divided, whole)


def count_parameters(model: ModelShape) -> int:
    """All parameters of the model, with its embeddings and its head."""
    # Embeddings and head, learned positions, the norm behind the layers (BERT: before them).
    tables = model.vocab * model.hidden * (1 if model.tied else 2)
    norm = model.hidden * (1 if model.norm == "rms" else 2)
    return model.layers * layer_parameters(model).total + (
        tables + position_rows(model) * model.hidden + norm + model.further
    )


def position_rows(model: ModelShape) -> int:
    """Rows of the table of learned positions; by default as many as tokens in a sequence."""
    if model.positions != "learned":
        return 0
    return model.sequence if model.position_rows is None else model.position_rows


class RankParameters(NamedTuple):
    """Parameters of one rank: those that all data-parallel ranks share, and its experts'."""

    dense: float
    experts: float
    layer: float
    table: float


def layers_of_stage(model: ModelShape, layout: Layout, stage: int) -> int:
    """The layers of a pipeline stage. Embedding and head count as layers where that divides."""
    layers, p = model.layers, layout.pipeline
    if layers % p and (layers + 2) % p == 0:
        return (layers + 2) // p - (stage in (0, p - 1))
    return -(-layers // p)


def rank_parameters(model: ModelShape, layout: Layout, stage: int) -> RankParameters:
    """The parameters of a rank of pipeline stage `stage` (from 0).

    Tensor parallelism divides matrices and tables. With several stages, a tied table is on the
    first and again on the last.
    """
    t, p = layout.tensor, layout.pipeline
    is_first, is_last = stage == 0, stage == p - 1
    of_layer = layer_parameters(model)
    divided = of_layer.attention + of_layer.feed_forward + of_layer.divided_biases
    layer = divided / t + of_layer.router + of_layer.whole
    layers = layers_of_stage(model, layout, stage)
    table = model.vocab * model.hidden / t
    tables = (1 if model.tied else 2) if p == 1 else (1 if is_first or is_last else 0)
    dense = layers * layer + tables * table
    if is_first:
        dense += position_rows(model) * model.hidden
    if is_last:
        dense += model.further + model.hidden * (1 if model.norm == "rms" else 2)
    experts = layers * of_layer.experts / (layout.expert * (layout.expert_tensor or t))
    return RankParameters(dense, experts, layer, table)


def adapter_parameters(model: ModelShape, layout: Layout, stage: int) -> float:
    """Parameters of LoRA on a rank: two thin matrices beside each matrix of a layer.

    Source: arXiv 2106.09685. For all matrices but the experts', the most that is usual.
    """
    h, q, kv, f = model.hidden, model.query_width, model.kv_width, model.ffn
    ends = 2 * (h + q) + 2 * (h + kv)
    if not model.experts:
        ends += (3 if model.gated else 2) * (h + f)
    layers = layers_of_stage(model, layout, stage)
    return layers * layout.adapter_rank * ends / layout.tensor


# NF4 keeps a scale of 32 bits for 64 weights, or 8 bits if these are quantized again (QLoRA, arXiv
# 2305.14314); 8 bits have one for a row.
SCALE_BITS = {4: 0.5, 8: 0.1}


def frozen_bytes(layout: Layout) -> float:
    """Bytes of a frozen parameter of a layer."""
    return (layout.weight_bits + SCALE_BITS.get(layout.weight_bits, 0.0)) / 8


# States: bytes of weights, gradients and optimizer for each parameter of a rank.

# Adam's two moments in fp32 are 8 bytes a parameter; what other optimizers keep in their place.
MOMENTS = {
    "adafactor": 0.0,
    "sgd": 4.0,  # with momentum, as trainings of these models use it
    "momentum": 4.0,
    "muon": 4.0,
    "lion": 4.0,
    "adam8bit": 2.0,
}
_FULLY_SHARDED = ("fsdp", "fairscale", "jax")
_DEEPSPEED = ("megatron-deepspeed", "deepspeed")


class States(NamedTuple):
    """Bytes per parameter on one GPU."""

    weights: float
    gradients: float
    optimizer: float


def states_per_parameter(layout: Layout, shards: float) -> States:
    """What a parameter costs if `shards` ranks share what the engine divides.

    Sources: arXiv 1910.02054 (ZeRO); DeepSpeed's runtime/zero/stage_1_and_2.py and stage3.py;
    Megatron-LM's docs of the distributed optimizer: bf16 6 + 12/N, fp16 4 + 16/N; torch's FSDP
    keeps fp32 weights, gradients and moments, all sharded: 16/N.
    """
    found = _with_adam(layout, shards)
    lighter = 8 - MOMENTS.get(layout.optimizer, 8.0)
    if not lighter:
        return found
    # Pure bf16 has moments of 2 bytes, and both shrink in the same proportion as the states do.
    full = _with_adam(layout._replace(optimizer="adam"), 1).optimizer
    share = lighter / full if layout.precision != "pure_bf16" else lighter / 8
    return found._replace(optimizer=found.optimizer * (1 - min(1.0, share)))


def _with_adam(layout: Layout, n: float) -> States:
    engine, zero, is_fp16 = layout.engine, layout.zero, layout.precision == "fp16"
    if engine in _FULLY_SHARDED:
        pure = layout.precision == "pure_bf16"
        return States(2 / n, 2 / n, 4 / n) if pure else States(4 / n, 4 / n, 8 / n)
    if layout.precision == "fp32":
        return States(4 / _n(zero, 3, n), 4 / _n(zero, 2, n), 8 / _n(zero, 1, n))
    if layout.precision == "pure_bf16":
        return States(2 / _n(zero, 3, n), 2 / _n(zero, 2, n), 4 / _n(zero, 1, n))
    if engine in _DEEPSPEED:
        return _deepspeed(zero, is_fp16, n)
    if engine == "megatron-core" and zero == 3:
        return States(2 / n, 4 / n, 12 / n)
    gradients, optimizer = (2.0, 16.0) if is_fp16 else (layout.gradient_bytes or 4.0, 12.0)
    optimizer = layout.optimizer_bytes or optimizer
    return States(2, gradients, optimizer / _n(zero, 1, n))


def _deepspeed(zero: int, is_fp16: bool, n: float) -> States:
    """fp16: fp32 copy, its gradient and moments are 16. bf16: gradients are added up in fp32.

    Stage 3 adds each gradient to the fp32 one, and frees it: 18/N (estimate_zero3_model_states).
    """
    if zero == 3:
        return States(2 / n, 0, 16 / n)
    if zero == 2:
        return States(2, 2 / n, 16 / n)
    if is_fp16:
        return States(2, 2, 16 / _n(zero, 1, n))
    return States(2, 6 if zero else 4, 12 / _n(zero, 1, n))


def _n(zero: int, needed: int, shards: float) -> float:
    """The ranks that share a state: ZeRO divides it from stage `needed` on."""
    return shards if zero >= needed else 1


def with_offload(states: States, layout: Layout) -> States:
    """What stays on the GPU if DeepSpeed keeps optimizer or parameters in the host's memory.

    Source: DeepSpeed's runtime/zero/stage_1_and_2.py and stage3.py, estimate_zero*_model_states.
    """
    if layout.offload == "none":
        return states
    if layout.offload == "parameters" and layout.zero == 3:
        return States(0, 0, 0)
    return States(states.weights, 0, 0)


# Activations and logits that a rank keeps for its backward pass.

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
