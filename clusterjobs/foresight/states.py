"""Bytes of weights, gradients and optimizer states for each parameter of a rank.

Knows what each engine keeps and what it shares between ranks; it must not know activations.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.foresight.records import Layout

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
    gradients, optimizer = (2.0, 16) if is_fp16 else (layout.gradient_bytes or 4.0, 12)
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
