"""Peak memory of the worst pipeline stage, by the parts of a rank. Replaced by memory.py."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from clusterjobs.foresight.ranking import verdict_of
from clusterjobs.foresight.records import Gpu, Layout, ModelShape, Range


def peak_bytes(model: ModelShape, layout: Layout) -> float:
    p = layout.pipeline
    return max(_stage_bytes(model, layout, stage) for stage in {0, p - 1})


def _stage_bytes(r: ModelShape, y: Layout, stage: int) -> float:
    L, h, f, s, V = r.layers, r.hidden, r.ffn, r.sequence, r.vocab  # noqa: N806
    t, p, v = y.tensor, y.pipeline, y.virtual_pipeline
    q, kv = r.query_width, r.kv_width
    mats = 3 if r.gated else 2
    last, first = stage == p - 1, stage == 0
    layers = ceil(L / p)
    dense = layers * (2 * h * q + 2 * h * kv) / t
    expert = 0.0
    if r.experts:
        dense += layers * (h * r.experts.count + mats * h * r.experts.shared_ffn / t)
        expert = layers * r.experts.count / y.expert * mats * h * r.experts.ffn / (y.expert_tensor or t)
    else:
        dense += layers * mats * h * f / t
    table = V * h / t
    dense += table * (1 if r.tied else 2) if p == 1 else table * (first or last)
    d = y.zero_group or y.gradient_ranks
    half = y.precision == "fp16"

    def per(n: int) -> float:
        if y.engine in ("fsdp", "fairscale", "jax"):
            return (8 if y.precision == "pure_bf16" else 16) / n
        if y.precision == "fp32":
            return 8 + 8 / n if y.zero else 16
        if y.engine in ("megatron-deepspeed", "deepspeed"):
            return {0: 20 if half else 18, 1: 4 + 16 / n if half else 8 + 12 / n, 2: 2 + 18 / n, 3: 18 / n}[y.zero]
        if y.engine == "megatron-core":
            grad, own = (2, 16) if half else (4, 12)
            return 18 / n if y.zero == 3 else 2 + grad + own / (n if y.zero else 1)
        return 20 if half else 18

    states = per(d) * dense + per(max(1, d * t // y.expert)) * expert
    T = s * y.micro_batch / y.context  # noqa: N806
    whole = 8 * h + (2 * h if y.hidden_dropout else 0)
    parts = 2 * (q + 2 * kv) + 2 * q + (6 if r.gated else 4) * f
    core = 4 * r.heads if y.flash else r.heads * s / y.context * (5 if y.attention_dropout else 2)
    sp = t if y.sequence_parallel else 1
    full = T * (whole / sp + (parts + core) / t)
    kept = 2 * T * h / sp
    m = y.micro_batches
    flight = min(m * v, (p - stage - 1) * 2 + (v - 1) * p + 1) / v if v > 1 else min(m, p - stage)
    logit = {"fsdp": 14, "fairscale": 14, "jax": 10, "ddp": 10, "deepspeed": 10}.get(y.engine, 6)
    head = T * V / t * logit * r.predicted_share + 4 * T * h if last else 0
    n = flight * layers
    if y.recompute == "full":
        act = n * kept + max(full, head)
    elif y.recompute == "selective" and not y.flash:
        act = n * (full - T * core / t) + head
    else:
        act = n * full + head
    return (states + act + 110e6) * 1.06 + 1.5 * 2**30


class Memory(NamedTuple):
    gib: Range
    capacity: float
    parts: dict[str, float]
    verdict: str
    remedies: tuple[str, ...]


def estimate_memory(model: ModelShape, layout: Layout, gpu: Gpu) -> Memory:
    mid = peak_bytes(model, layout) / 2**30
    capacity = gpu.memory_gib * 0.99
    return Memory(
        Range(0.9 * mid, mid, 1.15 * mid), capacity, {"all": mid}, verdict_of(mid / capacity), ()
    )


def count_parameters(model: ModelShape) -> int:
    h, matrices = model.hidden, 3 if model.gated else 2
    layer = 2 * h * (model.query_width + model.kv_width) + matrices * h * model.ffn
    return model.layers * layer + model.vocab * h * (1 if model.tied else 2)
