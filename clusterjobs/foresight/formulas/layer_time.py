"""The time of one layer for one micro batch on one GPU, by physical effect.

Each function gives seconds of the forward pass unless it says otherwise.
"""

from typing import NamedTuple

from clusterjobs.foresight.formulas.constants import Constants
from clusterjobs.models.records import Gpu, Layout, ModelShape, layer_weights

# The backward pass of a matrix product is two products. FlashAttention computes the scores again:
# five products for two (arXiv 2307.08691).
BACKWARD = 2.0
BACKWARD_FLASH = 2.5

# Engines that bring their own attention kernels for Hopper (cuDNN, FlashAttention 3).
OWN_HOPPER_ATTENTION = ("megatron-core", "internevo", "jax")
# Kernels are slower with narrow heads. Estimated, not fitted: it changes errors by under 1 %.
NARROW_HEAD = 96
NARROW_HEAD_SPEED = 0.8
HOPPER = ("H100", "H100-500W")


class LayerTime(NamedTuple):
    """Seconds forward and backward, without recomputation, and those of recomputation."""

    products: float
    attention: float
    elementwise: float
    fixed: float
    recomputation: float


def tokens(model: ModelShape, layout: Layout) -> float:
    """Tokens of one micro batch on one GPU."""
    return model.sequence * layout.micro_batch / layout.context


def matrix_rate(layout: Layout, gpu: Gpu, constants: Constants) -> float:
    """FLOP/s of the layers' matrix products in the layout's precision."""
    share = constants.products[gpu.family]
    if layout.precision in ("fp8", "nvfp4") and gpu.peak_fp8:
        if gpu.family == "H100-500W":  # as much slower as in 16 bit
            return (
                gpu.peak_fp8 * constants.products_fp8["H100"] * share / constants.products["H100"]
            )
        return gpu.peak_fp8 * constants.products_fp8[gpu.family]
    return gpu.peak_16bit * share


def products_time(model: ModelShape, layout: Layout, rate: float) -> float:
    """Two FLOPs for each weight and token; tensor parallelism splits the weights."""
    return 2 * tokens(model, layout) * layer_weights(model) / layout.tensor / rate


def attention_flops(model: ModelShape, layout: Layout) -> float:
    """Scores and values: 4·s·q for each token, without regard to the causal half."""
    return 4 * tokens(model, layout) * model.sequence * model.query_width / layout.tensor


def flash_attention_time(
    model: ModelShape, layout: Layout, gpu: Gpu, constants: Constants
) -> float:
    """Flash attention skips the causal half, and is slower with narrow heads."""
    share = constants.flash[gpu.family]
    if gpu.family in HOPPER and layout.engine not in OWN_HOPPER_ATTENTION:
        share = constants.flash_eager
    if model.head_dim < NARROW_HEAD:
        share *= NARROW_HEAD_SPEED
    work = attention_flops(model, layout) * (0.5 if model.causal else 1.0)
    return work / (gpu.peak_16bit * share)


def unfused_attention_time(
    model: ModelShape, layout: Layout, gpu: Gpu, constants: Constants
) -> float:
    """Two products over all scores, and the scores' way through memory (arXiv 2205.14135)."""
    scores = tokens(model, layout) * model.sequence * model.heads / layout.tensor
    rate = gpu.peak_16bit * constants.products[gpu.family]
    traffic = constants.unfused * scores / gpu.memory_bandwidth
    return attention_flops(model, layout) / rate + traffic


def elementwise_time(model: ModelShape, layout: Layout, gpu: Gpu, constants: Constants) -> float:
    """Norms, activations, dropout and residuals: bound by memory.

    Tensor parallelism splits a part of it; all of it with sequence parallelism (arXiv 2205.05198).
    """
    t = layout.tensor
    share = 1 / t if layout.sequence_parallel else 0.45 + 0.55 / t
    if model.gated:
        share *= 1 + 0.25 * (model.ffn / model.hidden - 4) / 4
    traffic = constants.elementwise * tokens(model, layout) * model.hidden
    return traffic * share / gpu.memory_bandwidth


def layer_time(model: ModelShape, layout: Layout, gpu: Gpu, constants: Constants) -> LayerTime:
    products = products_time(model, layout, matrix_rate(layout, gpu, constants))
    if layout.flash:
        attention = flash_attention_time(model, layout, gpu, constants)
        attention_backward = BACKWARD_FLASH * attention
    else:
        attention = unfused_attention_time(model, layout, gpu, constants)
        attention_backward = BACKWARD * attention
    elementwise = elementwise_time(model, layout, gpu, constants)
    fixed = constants.fixed
    forward = products + attention + elementwise + fixed
    again = {
        "full": forward,
        "half": forward / 2,
        "selective_ops": 0.5 * products + elementwise + fixed,  # torchtitan keeps half of them
        "selective": 0.0 if layout.flash else attention,
    }
    # Frozen weights have no gradients of their own: one product less backward.
    backward = BACKWARD - 1 if layout.adapter_rank else BACKWARD
    return LayerTime(
        products=(1 + backward) * products,
        attention=attention + attention_backward,
        elementwise=(1 + BACKWARD) * elementwise,
        fixed=(1 + BACKWARD) * fixed,
        recomputation=again.get(layout.recompute, 0.0),
    )
