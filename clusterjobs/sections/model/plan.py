"""Parallel sizes and batch sizes, and which must be divisible by which."""

from __future__ import annotations

from clusterjobs.counted import counted
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Parallelism, Samples, Shape
from clusterjobs.sections.context import Context
from clusterjobs.sections.model.checks import check_division
from clusterjobs.spec.keys.model import Parallel, default_parallel


def _supported_parallel(context: Context) -> Parallel:
    """`parallel` without the keys that the framework does not have; they are refused."""
    parallel, defaults = context.numbers.parallel, default_parallel()
    foreign = {
        key: getattr(defaults, key)
        for key, value in parallel
        if key not in context.framework.parallel_keys and value != getattr(defaults, key)
    }
    for key in foreign:
        others = [name for name, one in FRAMEWORKS.items() if key in one.parallel_keys]
        context.problem(
            ("parallel", key),
            f"{key} is not supported with framework: {context.framework.name}",
            f"remove it, or choose a framework that has it: {', '.join(others)}",
            at_key=True,
        )
    return parallel.model_copy(update=foreign) if foreign else parallel


def plan_parallelism(context: Context) -> Parallelism:
    """How the ranks are divided into copies of the model."""
    parallel, shape = _supported_parallel(context), context.placement.shape
    tensor, pipeline = parallel.tensor, parallel.pipeline
    world, model_ranks = shape.world_size, tensor * pipeline * parallel.context
    factors = f"tensor {tensor} x pipeline {pipeline}" + (
        f" x context {parallel.context}" if parallel.context > 1 else ""
    )
    _check_tensor_groups(context, tensor, shape)
    if world % model_ranks:
        context.problem(
            ("parallel",),
            f"{counted(world, 'rank')} cannot be divided by {factors} = {model_ranks}",
            f"nodes x ranks per node must be a multiple of {model_ranks}",
        )
    copies = context.record(
        "data_parallel", max(1, world // model_ranks), f"world size {world} / ({factors})"
    )
    check_division(context, parallel)
    return Parallelism(
        tensor,
        pipeline,
        copies,
        parallel.context,
        parallel.virtual_pipeline,
        parallel.expert,
        parallel.sequence,
    )


def _check_tensor_groups(context: Context, tensor: int, shape: Shape) -> None:
    """Warn of tensor groups on several nodes: ranks are grouped in their order, 0-5, 6-11, ..."""
    ranks = shape.ranks_per_node
    if tensor > ranks:
        what = f"tensor: {tensor} needs more ranks than one node has ({ranks})"
    elif shape.nodes > 1 and ranks % tensor:
        what = f"tensor: {tensor} does not divide the {ranks} ranks of a node: groups span nodes"
    else:
        return
    context.problem(
        ("parallel", "tensor"),
        what,
        "tensor parallelism within a node, pipeline between nodes",
        warning=True,
    )


def plan_batch(context: Context) -> Samples | None:
    """The batch sizes: micro x accumulation x data parallel = global. The spec gives some of them.

    None also if the number of ranks is wrong.
    """
    batch, ranks = context.numbers.batch, context.parallelism.data
    wrong = {one.path.partition(".")[0] for one in context.diagnostics.problems if not one.warning}
    if batch is None or wrong & {"nodes", "gpus_per_node", "ranks_per_node", "parallel"}:
        return None
    micro, accumulation, total = batch.micro, batch.accumulation, batch.global_
    if total is None:
        if micro is None:
            context.problem(("batch",), "micro or global is missing", "add `micro: 8`")
            return None
        accumulation = accumulation or context.record(
            "batch.accumulation", 1, "neither global nor accumulation is given"
        )
        total = context.record(
            "batch.global",
            micro * accumulation * ranks,
            f"micro {micro} x accumulation {accumulation} x data parallel {ranks}",
        )
        return Samples(micro, accumulation, total)
    if micro is None:
        accumulation = accumulation or 1
        micro = _quotient(context, "micro", total, "accumulation", accumulation)
        return Samples(micro, accumulation, total) if micro else None
    steps = _quotient(context, "accumulation", total, "micro", micro)
    if steps and accumulation and accumulation != steps:
        context.problem(
            ("batch", "accumulation"),
            f"{accumulation} contradicts micro and global, which make it {steps}",
            f"accumulation: {steps}, or remove one of the three",
        )
    return Samples(micro, steps, total) if steps else None


def _quotient(context: Context, name: str, total: int, other: str, number: int) -> int | None:
    """The derived value batch.`name`, or a problem with the nearest divisible totals."""
    ranks = context.parallelism.data
    factors, divisor = f"{other} {number} x data parallel {ranks}", number * ranks
    if total % divisor == 0:
        return context.record(f"batch.{name}", total // divisor, f"global {total} / ({factors})")
    below, above = total // divisor * divisor, -(-total // divisor) * divisor
    context.problem(
        ("batch", "global"),
        f"{total} is not a multiple of {factors} = {divisor}",
        f"global: {f'{below} or ' if below else ''}{above}",
    )
    return None
