"""How far an estimate can be trusted: what was published, and what was not.

Each doubt is one sentence for the user. A guess has a range of a factor of two.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from clusterjobs.foresight.records import Gpu, Layout, ModelShape, Network

Trust = Literal["validated", "extrapolated", "guess"]

# Smallest and largest in the published rows.
HIDDEN = (768, 25_600)
SEQUENCE = (128, 65_536)
SEQUENCE_WITH_CONTEXT = 262_144
MOST_GPUS = 10_752
MOST_GRADIENT_RANKS = 256
MOST_EFA_NODES = 8
COARSE_EXPERTS = 16
# Beyond it attention takes most of a step, and its speed depends on the kernel's release.
LONG_SEQUENCE = 16_384
UNPUBLISHED_ENGINES = {"fairseq": "fairseq", "horovod": "Horovod", "fairscale": "FairScale"}


class Region(NamedTuple):
    """How far to trust an estimate, and the doubts; none if it is validated."""

    trust: Trust
    doubts: tuple[str, ...]


def region(model: ModelShape, layout: Layout, gpu: Gpu, network: Network) -> Region:
    unknown = tuple(_unpublished(model, layout, gpu, network))
    thin = tuple(_beyond_the_rows(model, layout, gpu, network))
    trust: Trust = "guess" if unknown else "extrapolated" if thin else "validated"
    return Region(trust, unknown + thin)


def _unpublished(model: ModelShape, layout: Layout, gpu: Gpu, network: Network) -> list[str]:
    """Nothing comparable was published."""
    doubts = []
    if not gpu.family:
        doubts.append(f"no published measurement ran on a GPU such as {gpu.name}")
    if layout.engine in UNPUBLISHED_ENGINES:
        name = UNPUBLISHED_ENGINES[layout.engine]
        doubts.append(f"nobody published configuration and speed together for {name}")
    if layout.engine == "deepspeed":
        doubts.append("the few published runs of DeepSpeed without Megatron are up to 1.8x slower")
    if layout.precision == "fp32":
        doubts.append("no published measurement trained in fp32")
    if layout.precision == "nvfp4":
        doubts.append("nvfp4 is estimated as fp8")
    if layout.tensor > layout.gpus_per_node:
        doubts.append("tensor parallelism over nodes was measured on one old cluster alone")
    if layout.nodes > 1 and layout.zero >= 2 and network.fabric == "efa":
        doubts.append("nobody published ZeRO-2, ZeRO-3 or FSDP over EFA")
    if model.experts:
        doubts += _expert_doubts(model, layout)
    return doubts


def _expert_doubts(model: ModelShape, layout: Layout) -> list[str]:
    assert model.experts
    spread = layout.expert * (layout.expert_tensor or 1)
    if spread > layout.gpus_per_node:
        return ["experts over several nodes: published rows differ from the model by a factor of 2"]
    if model.experts.number > COARSE_EXPERTS:
        return ["many small experts: published rows differ from the model by a factor of 2"]
    return []


def _beyond_the_rows(model: ModelShape, layout: Layout, gpu: Gpu, network: Network) -> list[str]:
    """One step outside of what was published."""
    doubts = []
    if gpu.family == "Blackwell":
        doubts.append(f"one publication alone measured {gpu.name.split('-')[0]}")
    if gpu.name.startswith("H200"):
        doubts.append("no published measurement of H200: estimated as an H100 with faster memory")
    if layout.precision == "pure_bf16":
        doubts.append("few published measurements trained in bf16 without fp32 weights")
    if layout.engine == "jax":
        doubts.append("no published measurement of JAX")
    if network.fabric == "efa" and layout.nodes > MOST_EFA_NODES:
        doubts.append(f"no published measurement over EFA with more than {MOST_EFA_NODES} nodes")
    if layout.gradient_ranks > MOST_GRADIENT_RANKS:
        doubts.append(f"more than {MOST_GRADIENT_RANKS} data-parallel ranks")
    if layout.gpus > MOST_GPUS:
        doubts.append(f"more GPUs than any published measurement ({MOST_GPUS})")
    if model.experts:
        doubts.append("few published measurements of a mixture of experts")
    return doubts + _shape_doubts(model, layout)


def _shape_doubts(model: ModelShape, layout: Layout) -> list[str]:
    doubts = []
    if not HIDDEN[0] <= model.hidden <= HIDDEN[1]:
        doubts.append(f"hidden size {model.hidden} is outside of {HIDDEN[0]} to {HIDDEN[1]}")
    longest = SEQUENCE_WITH_CONTEXT if layout.context > 1 else SEQUENCE[1]
    if LONG_SEQUENCE < model.sequence <= longest:
        doubts.append("releases of flash attention differ by 30 % with such long sequences")
    if not SEQUENCE[0] <= model.sequence <= longest:
        doubts.append(f"sequence length {model.sequence} is outside of {SEQUENCE[0]} to {longest}")
    return doubts
