"""Parallelism and batch sizes: what divides what."""

from __future__ import annotations

from clusterjobs.frameworks.contract import Samples, Shape
from clusterjobs.ledger import Ledger
from clusterjobs.plan.placement import Placement
from clusterjobs.spec.experiment import Batch, Experiment, Model, Parallel


def resolve_shape(experiment: Experiment, placement: Placement, ledger: Ledger) -> Shape:
    """How the ranks divide into copies of the model."""
    tensor, pipeline = experiment.parallel.tensor, experiment.parallel.pipeline
    world, model_ranks = placement.world_size, tensor * pipeline
    if tensor > placement.ranks_per_node:
        ledger.problem(
            ("parallel", "tensor"),
            f"tensor: {tensor} reaches over a node of {placement.ranks_per_node} ranks",
            "tensor parallelism within a node, pipeline between nodes",
            warning=True,
        )
    if world % model_ranks:
        ledger.problem(
            ("parallel",),
            f"{world} ranks are not a multiple of tensor {tensor} x pipeline {pipeline} "
            f"= {model_ranks}",
            f"nodes x ranks per node must be a multiple of {model_ranks}",
        )
    data_parallel = ledger.derive(
        "data_parallel",
        max(1, world // model_ranks),
        f"world size {world} / (tensor {tensor} x pipeline {pipeline})",
    )
    return Shape(
        placement.nodes, placement.ranks_per_node, placement.gpus_per_node, world, data_parallel
    )


def check_model(model: Model | None, parallel: Parallel, ledger: Ledger) -> None:
    """Whether the model can be divided as `parallel` says. Source: Megatron-LM's own asserts."""
    if model is None:
        return
    tensor, pipeline = parallel.tensor, parallel.pipeline
    _check_divides("hidden", model.hidden, f"heads {model.heads}", model.heads, ledger)
    _check_divides("heads", model.heads, f"tensor {tensor}", tensor, ledger)
    _check_divides("layers", model.layers, f"pipeline {pipeline}", pipeline, ledger)
    if model.vocab is not None:
        multiple = 128 * tensor
        ledger.derive(
            "model.vocab_padded",
            -(-model.vocab // multiple) * multiple,
            f"vocab {model.vocab} up to a multiple of 128 x tensor {tensor}",
            "Megatron-LM: make-vocab-size-divisible-by",
        )


def _check_divides(key: str, value: int, factor: str, divisor: int, ledger: Ledger) -> None:
    if value % divisor == 0:
        return
    below, above = value // divisor * divisor, -(-value // divisor) * divisor
    ledger.problem(
        ("model", key),
        f"{value} is not a multiple of {factor}",
        f"{key}: {f'{below} or ' if below else ''}{above}, or change {factor.split()[0]}",
    )


def resolve_samples(batch: Batch | None, shape: Shape, ledger: Ledger) -> Samples | None:
    """micro x accumulation x data parallel = global, from whatever of it the spec says."""
    if batch is None:
        return None
    micro, accumulation, total = batch.micro, batch.accumulation, batch.global_
    ranks = shape.data_parallel
    if total is None:
        if micro is None:
            ledger.problem(("batch",), "micro or global is missing", "add `micro: 8`")
            return None
        accumulation = accumulation or ledger.derive(
            "batch.accumulation", 1, "neither global nor accumulation is given"
        )
        total = ledger.derive(
            "batch.global",
            micro * accumulation * ranks,
            f"micro {micro} x accumulation {accumulation} x data parallel {ranks}",
        )
        return Samples(micro, accumulation, total)
    if micro is None:
        accumulation = accumulation or 1
        micro = _quotient(
            "batch.micro",
            total,
            accumulation * ranks,
            f"accumulation {accumulation}",
            ranks,
            ledger,
        )
        return Samples(micro, accumulation, total) if micro else None
    steps = _quotient("batch.accumulation", total, micro * ranks, f"micro {micro}", ranks, ledger)
    if steps and accumulation and accumulation != steps:
        ledger.problem(
            ("batch", "accumulation"),
            f"{accumulation} contradicts micro and global, which make it {steps}",
            "remove one of the three",
        )
    return Samples(micro, steps, total) if steps else None


def _quotient(
    name: str, total: int, divisor: int, factor: str, ranks: int, ledger: Ledger
) -> int | None:
    """total / divisor as a derived value, or a problem with the nearest totals that divide."""
    if total % divisor == 0:
        return ledger.derive(
            name, total // divisor, f"global {total} / ({factor} x data parallel {ranks})"
        )
    below, above = total // divisor * divisor, -(-total // divisor) * divisor
    nearest = f"{below} or {above}" if below else str(above)
    ledger.problem(
        ("batch", "global"),
        f"{total} is not a multiple of {factor} x data parallel {ranks} = {divisor}",
        f"global: {nearest}",
    )
    return None
