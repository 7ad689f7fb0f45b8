"""The records that foresight calculates with: a model, a layout, a GPU, a network and a range.

FLOP and bytes/s are decimal; memory is in GiB.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Recompute = Literal["none", "selective", "selective_ops", "half", "full"]
Precision = Literal["fp32", "fp16", "bf16", "amp_bf16", "pure_bf16", "fp8", "nvfp4"]
Engine = Literal[
    "megatron-core",
    "megatron-2020",  # Megatron-LM before Megatron-Core
    "megatron-deepspeed",
    "deepspeed",
    "fsdp",
    "fairscale",
    "ddp",
    "jax",
    "internevo",
    "fairseq",
    "horovod",
]


class Range(NamedTuple):
    """A prediction: the middle and an interval that should hold 80 % of the measured values."""

    low: float
    mid: float
    high: float

    def times(self, factor: float) -> Range:
        return Range(self.low * factor, self.mid * factor, self.high * factor)

    def inverse(self, numerator: float = 1.0) -> Range:
        """`numerator / value`: the low end comes from the high one."""
        return Range(numerator / self.high, numerator / self.mid, numerator / self.low)


class Experts(NamedTuple):
    """A mixture of experts. `shared_ffn` is the width of the experts that every token uses."""

    number: int
    top_k: int
    ffn: int
    shared_ffn: int = 0


class ModelShape(NamedTuple):
    """A transformer with all its defaults resolved.

    `vocab` is padded as the framework pads it. `predicted_share` is the share of the tokens that
    the head sees (1 for a decoder; 20/128 for BERT at sequence length 128). `attention_bias` None
    is as `bias`. `norms` of a layer; GPT-J has one. `position_rows` None is `sequence`. `further`:
    parameters beside layers, tables, positions and the final norm (a pooler, BERT's head).
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    sequence: int
    vocab: int
    gated: bool = False
    tied: bool = True
    positions: Literal["learned", "rotary", "alibi", "none"] = "learned"
    bias: bool = True
    norm: Literal["layer", "rms"] = "layer"
    causal: bool = True
    experts: Experts | None = None
    predicted_share: float = 1.0
    attention_bias: Literal["all", "qkv", "none"] | None = None
    norms: int = 2
    position_rows: int | None = None
    further: int = 0

    @property
    def query_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim


class Layout(NamedTuple):
    """How a job spreads a model over GPUs, and what software it runs.

    `engine` is what runs the parallelism: Lightning with FSDP is `fsdp`. `gpus_per_node` counts
    the GPUs that NVLink joins. `zero` is the stage (`fsdp` is 3); `zero_group` the number of ranks
    that share the states, None for all data-parallel ranks. `recompute` is `selective` for the
    attention core alone, and `selective_ops` for the policy of torchtitan. `context` splits the
    sequence; its ranks share gradients, too. `gradient_bytes`: of Megatron-Core's gradients, 4 in
    bf16 by default; `optimizer_bytes`: of its optimizer, 12 by default. `gradient_sync`: FSDP
    shares gradients out after each micro batch of a step, or after the last; None is unknown.
    `expert_tensor` None is `tensor`. `adapter_rank`: of LoRA, 0 if all parameters are trained;
    `weight_bits`: of the frozen weights beside it.
    """

    gpus: int
    gpus_per_node: int
    micro_batch: int
    global_batch: int
    engine: Engine
    tensor: int = 1
    pipeline: int = 1
    virtual_pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int | None = None
    zero: int = 0
    zero_group: int | None = None
    recompute: Recompute = "none"
    flash: bool = True
    sequence_parallel: bool = False
    precision: Precision = "bf16"
    optimizer: str = "adam"
    attention_dropout: bool = False
    hidden_dropout: bool = False
    offload: Literal["none", "optimizer", "parameters"] = "none"
    compiled: bool = False
    logit_bytes: float | None = None
    gradient_bytes: float | None = None
    optimizer_bytes: float | None = None
    gradient_sync: Literal["each", "last"] | None = None
    adapter_rank: int = 0
    weight_bits: int = 16

    @property
    def data(self) -> int:
        """Data-parallel ranks: what tensor, pipeline and context parallelism leave of the GPUs."""
        return self.gpus // (self.tensor * self.pipeline * self.context)

    @property
    def gradient_ranks(self) -> int:
        return self.gpus // (self.tensor * self.pipeline)

    @property
    def micro_batches(self) -> float:
        """Micro batches of a step for each pipeline, at least one."""
        return max(1.0, self.global_batch / (self.micro_batch * self.data))

    @property
    def nodes(self) -> int:
        return -(-self.gpus // self.gpus_per_node)


class Gpu(NamedTuple):
    """One GPU: dense peaks in FLOP/s, memory and NVLink in bytes/s one way, memory in GiB.

    `family` selects the fitted constants: V100, A100, H100, Blackwell; "" if nothing was fitted.
    """

    name: str
    family: str
    peak_16bit: float
    peak_fp8: float | None
    memory_bandwidth: float
    nvlink: float
    memory_gib: float

    def peak(self, precision: str) -> float:
        """Dense FLOP/s that MFU is a share of: fp8's peak for fp8 and below."""
        low = precision in ("fp8", "nvfp4")
        return self.peak_fp8 if low and self.peak_fp8 else self.peak_16bit


class Network(NamedTuple):
    """The network between nodes: a node's line rate in Gbit/s, and the fabric (efa, infiniband)."""

    gbps: float
    fabric: str = ""


# ------------------------------------------------------------------ flops
# FLOPs of a training step, as the publications count them: 2 for a multiply-add.
# Attention is counted without its causal half, as Megatron-LM until March 2025, MosaicML and
# torchtitan count it. Two conventions differ by up to the attention's share.


TRAINING_PASSES = 3  # forward, and twice the forward's work backward
ADAPTER_PASSES = 2  # frozen weights have no gradients of their own


def forward_flops(model: ModelShape, sequences: float) -> float:
    """Layers, attention's scores and values, and the head, of the forward pass.

    With f = 4h and no biases it is arXiv 2104.04473, equation 3: 24·B·s·L·h²·(1 + s/6h + V/12Lh).
    """
    head = 2 * model.hidden * model.vocab * model.predicted_share
    return sequences * model.sequence * (_layer_flops(model) + head)


def model_flops(model: ModelShape, sequences: float, layout: Layout | None = None) -> float:
    """FLOPs of a step of `sequences` without recomputation: what MFU counts.

    `layout`: says whether only an adapter is trained.
    """
    passes = ADAPTER_PASSES if layout and layout.adapter_rank else TRAINING_PASSES
    return passes * forward_flops(model, sequences)


def attention_share(model: ModelShape) -> float:
    """The share of attention's scores and values in the FLOPs, with the half that is not causal."""
    sequence = model.sequence
    return sequence * model.layers * _attention_flops(model) / forward_flops(model, 1)


def hardware_flops(model: ModelShape, layout: Layout) -> float:
    """FLOP of a step with what is computed again, which HFU counts (arXiv 2205.05198)."""
    batch = layout.global_batch
    token_count = batch * model.sequence
    scores = token_count * model.layers * _attention_flops(model)
    again = {
        "full": token_count * _layer_flops(model),
        "half": token_count * _layer_flops(model) / 2,
        "selective_ops": token_count * _layer_flops(model) / 2,
        "selective": scores,
    }.get(layout.recompute, 0.0)
    return model_flops(model, batch, layout) + again


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
