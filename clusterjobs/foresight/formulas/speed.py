"""The speed of a layout as ranges, with what limits it and what the estimate rests on."""

from __future__ import annotations

import functools
import json
import pathlib
from math import log
from typing import Any, Literal, NamedTuple

from clusterjobs.foresight.formulas.constants import fitted_constants, range_factors
from clusterjobs.foresight.formulas.step import StepTime, step_time
from clusterjobs.models.records import (
    Gpu,
    Layout,
    ModelShape,
    Network,
    Range,
    attention_share,
    hardware_flops,
    layer_weights,
    model_flops,
)

# The parts of a step, and what would make each shorter.
NAMES = {
    "products": "matrix products",
    "attention": "attention",
    "elementwise": "norms, activations and residuals",
    "fixed": "fixed time per layer and micro batch",
    "recomputation": "recomputation",
    "head": "head and loss",
    "tensor": "tensor-parallel traffic",
    "experts": "experts",
    "bubble": "pipeline bubble",
    "messages": "pipeline messages",
    "data": "data-parallel traffic",
    "optimizer": "optimizer update",
    "other": "fixed time of a step",
}
ADVICE = {
    "products": "only more GPUs, or fp8 where the GPU has it, make it shorter",
    "attention": "it grows with the square of the sequence length",
    "elementwise": "sequence parallelism splits it",
    "fixed": "a larger micro batch makes it matter less",
    "recomputation": "less checkpointing saves it, if the memory allows",
    "head": "balance the stages: fewer layers on the last one",
    "tensor": "less tensor parallelism, never over nodes",
    "experts": "keep the experts of a group inside the node",
    "bubble": "more micro batches, fewer stages or virtual stages make it shorter",
    "messages": "fewer stages or virtual stages send less",
    "data": "more accumulation hides it; ZeRO-1 sends less than ZeRO-3",
    "optimizer": "ZeRO-1 splits it over the data-parallel ranks",
    "other": "a larger global batch makes it matter less",
}
UNFUSED = "flash attention makes it shorter"


class Part(NamedTuple):
    """A part of the step: a name of StepTime, its display name, seconds, share, and what helps."""

    key: str
    name: str
    seconds: float
    share: float
    advice: str

    def __str__(self) -> str:
        return f"{self.name} {self.share:.0%}"


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


_LIKE = {
    "H200": "an H100 with faster memory",
    "GH200": "an H100 with faster memory",
    "H800": "an H100 with slower NVLink",
    "A800": "an A100 with slower NVLink",
}


class Region(NamedTuple):
    """How far to trust an estimate, and the doubts; none if it is validated."""

    trust: Trust
    doubts: tuple[str, ...]


def region(model: ModelShape, layout: Layout, gpu: Gpu, network: Network) -> Region:
    """What was not published about this job. A guess has a range of a factor of two."""
    engine, precision, efa = layout.engine, layout.precision, network.fabric == "efa"
    experts = model.experts.number if model.experts else 0
    over_nodes = layout.expert * (layout.expert_tensor or 1) > layout.gpus_per_node
    longest = SEQUENCE_WITH_CONTEXT if layout.context > 1 else SEQUENCE[1]
    nothing_comparable = (
        (not gpu.family, f"no published measurement ran on a GPU such as {gpu.name}"),
        (
            engine in UNPUBLISHED_ENGINES,
            "nobody published configuration and speed together for "
            f"{UNPUBLISHED_ENGINES.get(engine)}",
        ),
        (
            engine == "deepspeed",
            "the few published runs of DeepSpeed without Megatron are up to 1.8x slower",
        ),
        (
            layout.adapter_rank > 0,
            "nobody published configuration and speed of an adapter (LoRA) together",
        ),
        (
            not model.causal and model.predicted_share == 0,
            "no published measurement trained a vision transformer",
        ),
        (precision == "nvfp4", "nvfp4 is estimated as fp8"),
        (
            layout.tensor > layout.gpus_per_node,
            "tensor parallelism over nodes was measured on one old cluster alone",
        ),
        (
            layout.nodes > 1 and layout.zero >= 2 and efa,
            "nobody published ZeRO-2, ZeRO-3 or FSDP over EFA",
        ),
        (
            experts and over_nodes,
            "experts over several nodes: published rows differ from the model by a factor of 2",
        ),
        (
            experts > COARSE_EXPERTS and not over_nodes,
            "many small experts: published rows differ from the model by a factor of 2",
        ),
    )
    one_step_outside = (
        (gpu.family == "Blackwell", f"one publication alone measured {gpu.name.split('-')[0]}"),
        (
            gpu.name.partition("-")[0] in _LIKE,
            f"no published measurement of {gpu.name.partition('-')[0]}: estimated as "
            f"{_LIKE.get(gpu.name.partition('-')[0])}",
        ),
        (
            precision == "pure_bf16",
            "few published measurements trained in bf16 without fp32 weights",
        ),
        (engine == "jax", "published step times of JAX are up to 1.3x off the estimate"),
        (
            efa and layout.nodes > MOST_EFA_NODES,
            f"no published measurement over EFA with more than {MOST_EFA_NODES} nodes",
        ),
        (
            layout.gradient_ranks > MOST_GRADIENT_RANKS,
            f"more than {MOST_GRADIENT_RANKS} data-parallel ranks",
        ),
        (
            layout.gpus > MOST_GPUS,
            f"more GPUs than any published measurement ({MOST_GPUS})",
        ),
        (experts, "few published measurements of a mixture of experts"),
        (
            not HIDDEN[0] <= model.hidden <= HIDDEN[1],
            f"hidden size {model.hidden} is outside of {HIDDEN[0]} to {HIDDEN[1]}",
        ),
        (
            LONG_SEQUENCE < model.sequence <= longest,
            "releases of flash attention differ by 30 % with such long sequences",
        ),
        (
            not SEQUENCE[0] <= model.sequence <= longest,
            f"sequence length {model.sequence} is outside of {SEQUENCE[0]} to {longest}",
        ),
    )
    unknown = tuple(doubt for applies, doubt in nothing_comparable if applies)
    thin = tuple(doubt for applies, doubt in one_step_outside if applies)
    trust: Trust = "guess" if unknown else "extrapolated" if thin else "validated"
    return Region(trust, unknown + thin)


class Speed(NamedTuple):
    """One layout's speed. `limits` are the largest parts of the step, `doubts` why the range is
    wider than that of validated layouts (empty if `validated`).

    `counts_causal_half`: MFU and TFLOP/s count attention once for its causal half, since attention
    takes much of the work; else the whole of it, as most publications do.
    """

    step_seconds: Range
    tokens_per_second_per_gpu: Range
    tflops_per_gpu: Range
    mfu: Range
    hfu: Range
    parts: StepTime
    limits: tuple[Part, ...]
    validated: bool
    doubts: tuple[str, ...]
    nearest: tuple[Nearest, ...]
    counts_causal_half: bool = False


MOST_OF_PEAK = 0.75  # of the peak: no published training reached more (0.74 on GB300)
LONG_ATTENTION = 0.2  # of the FLOPs: beyond it, the two counts of attention differ by 10 %


def estimate_speed(
    model: ModelShape, layout: Layout, gpu: Gpu, network: Network, with_nearest: bool = True
) -> Speed | None:
    """The speed; None if the states are on the host, or if the network's speed is unknown."""
    if layout.offload != "none" or (layout.nodes > 1 and not network.gbps):
        return None
    parts = step_time(model, layout, gpu, network, fitted_constants())
    found = region(model, layout, gpu, network)
    batch = layout.global_batch
    work = model_flops(model, batch, layout) / layout.gpus
    hardware_work = hardware_flops(model, layout) / layout.gpus
    peak = gpu.peak(layout.precision)
    attention = attention_share(model)
    least = work * (1 - attention / 2 if model.causal else 1.0)  # that any kernel computes
    again = hardware_work - work  # with recomputation
    fastest = (least + again) / (MOST_OF_PEAK * peak)
    seconds = _possible(range_factors(found.trust).times(parts.seconds), fastest)
    counts_half = model.causal and attention > LONG_ATTENTION
    if counts_half:
        work, hardware_work = least, hardware_work - (work - least)
    total = parts.seconds
    ordered = sorted(parts._asdict().items(), key=lambda item: -item[1])
    advice = ADVICE if layout.flash else ADVICE | {"attention": UNFUSED}
    return Speed(
        step_seconds=seconds,
        tokens_per_second_per_gpu=seconds.inverse(batch * model.sequence / layout.gpus),
        tflops_per_gpu=seconds.inverse(work / 1e12),
        mfu=seconds.inverse(work / peak),
        hfu=seconds.inverse(hardware_work / peak),
        parts=parts,
        limits=tuple(
            Part(key, NAMES[key], seconds, seconds / total, advice[key])
            for key, seconds in ordered[:3]
        ),
        validated=found.trust == "validated",
        doubts=found.doubts,
        nearest=nearest(model, layout, gpu) if with_nearest else (),
        counts_causal_half=counts_half,
    )


def _possible(seconds: Range, least: float) -> Range:
    """The range without times in which the GPUs would be faster than in any publication."""
    return Range(*(max(one, least) for one in seconds))


# ------------------------------------------------------------------ nearest measurements
# The published measurements nearest to a configuration: the reason to trust an estimate.
# They are in a small file that benchmarks/foresight_fit.py makes of benchmarks/published.csv.


NEAREST_FILE = pathlib.Path(__file__).with_name("nearest.json")

# Added to the distance, which else counts factors: e (2.7) times the parameters is 1.
OTHER_RECOMPUTATION = 1.0
OTHER_ENGINE = 0.5
OTHER_PRECISION = 0.5
MIXTURE_OR_DENSE = 3.0


class Nearest(NamedTuple):
    """A published measurement: where it is from, what ran, and how fast."""

    source: str
    url: str
    configuration: str
    step_seconds: float
    tokens_per_second_per_gpu: float
    mfu: float

    def __str__(self) -> str:
        return f"{self.configuration}: MFU {self.mfu:.0%} ({self.source})"


def nearest(model: ModelShape, layout: Layout, gpu: Gpu, count: int = 3) -> tuple[Nearest, ...]:
    """The nearest rows of the same family of GPUs."""
    here = coordinates(model, layout)
    kind = kind_of(model, layout)
    rows = _rows().get(gpu.family, [])
    ordered = sorted(rows, key=lambda row: _distance(here, kind, row))
    return tuple(Nearest(*row["nearest"]) for row in ordered[:count])


@functools.cache
def _rows() -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = json.loads(NEAREST_FILE.read_text(encoding="utf-8"))
    return rows


def coordinates(model: ModelShape, layout: Layout) -> list[float]:
    coordinates = (
        log(model.layers * layer_weights(model)),
        log(model.sequence),
        log(layout.gpus) / 2,
        log(layout.tensor * layout.pipeline),
    )
    return [round(value, 3) for value in coordinates]


def kind_of(model: ModelShape, layout: Layout) -> list[str]:
    mixture = "experts" if model.experts else "dense"
    return [layout.recompute, layout.engine, layout.precision, mixture]


def _distance(here: list[float], kind: list[str], row: dict[str, Any]) -> float:
    weights = (OTHER_RECOMPUTATION, OTHER_ENGINE, OTHER_PRECISION, MIXTURE_OR_DENSE)
    factors = sum(abs(a - b) for a, b in zip(here, row["at"], strict=True))
    kinds = zip(weights, kind, row["kind"], strict=True)
    return float(factors + sum(weight for weight, a, b in kinds if a != b))
