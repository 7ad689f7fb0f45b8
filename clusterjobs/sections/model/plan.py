"""Parallel sizes and batch sizes, and which must be divisible by which."""

from __future__ import annotations

from clusterjobs.counted import counted
from clusterjobs.errors import Problem
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Parallelism, Samples, Shape
from clusterjobs.sections.context import Context
from clusterjobs.spec.experiment import Parallel
from clusterjobs.spec.keys.model import Model


def _supported_parallel(context: Context) -> Parallel:
    """`parallel` without the keys that the framework does not have; they are refused."""
    parallel, defaults = context.numbers.parallel, Parallel()
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
    _check_model(context, parallel)
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


def _check_model(context: Context, parallel: Parallel) -> None:
    """Whether the model can be divided as `parallel` says. Source: Megatron-LM's own asserts."""
    model, division = context.numbers.model, context.framework.division(context.spec)
    if model is None or not model.layers:
        return
    tensor = parallel.tensor
    if not division.any_head_size:
        _check_divides(context, "hidden", model.hidden, f"heads {model.heads}", model.heads)
    _check_divides(context, "heads", model.heads, f"tensor {tensor}", tensor)
    if division.beside_layers is not None:
        _check_stages(context, model.layers, parallel.pipeline, division.beside_layers)
    if model.vocab is not None and division.pads_vocab:
        multiple = 128 * tensor
        context.record(
            "model.vocab_padded",
            -(-model.vocab // multiple) * multiple,
            f"vocab {model.vocab} up to a multiple of 128 x tensor {tensor}",
            "Megatron-LM: make-vocab-size-divisible-by",
        )


def _check_stages(context: Context, layers: int, pipeline: int, beside: int) -> None:
    """Warn of stages with unequal numbers of layers, though DeepSpeed can divide any number."""
    items = layers + beside
    fewest, more = divmod(items, pipeline)
    if more == 0:
        return
    have = "1 stage has" if more == 1 else f"{more} stages have"
    counts = f"{have} {fewest + 1}, the others {fewest} and wait"
    below, above = fewest * pipeline - beside, (fewest + 1) * pipeline - beside
    context.problem(
        ("model", "layers"),
        f"{layers} layers are not a multiple of pipeline {pipeline}: {counts}",
        f"equal stages: layers: {f'{below} or ' if fewest else ''}{above}, or change pipeline",
        warning=True,
    )


def _check_divides(context: Context, key: str, value: int, factor: str, divisor: int) -> None:
    if value % divisor == 0:
        return
    below, above = value // divisor * divisor, -(-value // divisor) * divisor
    context.problem(
        ("model", key),
        f"{value} is not a multiple of {factor}",
        f"{key}: {f'{below} or ' if below else ''}{above}, or change {factor.split()[0]}",
    )


def plan_batch(context: Context) -> Samples | None:
    """The batch sizes: micro x accumulation x data parallel = global. The spec gives some of them.

    None also if the number of ranks is wrong.
    """
    batch, ranks = context.numbers.batch, context.parallelism.data
    if batch is None or any(_is_of_the_shape(one) for one in context.diagnostics.problems):
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
        micro = _quotient(
            context,
            "batch.micro",
            total,
            accumulation * ranks,
            f"accumulation {accumulation}",
            ranks,
        )
        return Samples(micro, accumulation, total) if micro else None
    steps = _quotient(context, "batch.accumulation", total, micro * ranks, f"micro {micro}", ranks)
    if steps and accumulation and accumulation != steps:
        context.problem(
            ("batch", "accumulation"),
            f"{accumulation} contradicts micro and global, which make it {steps}",
            f"accumulation: {steps}, or remove one of the three",
        )
    return Samples(micro, steps, total) if steps else None


def _is_of_the_shape(problem: Problem) -> bool:
    keys = ("nodes", "gpus_per_node", "ranks_per_node", "parallel")
    return problem.path.partition(".")[0] in keys and not problem.warning


def _quotient(
    context: Context, name: str, total: int, divisor: int, factor: str, ranks: int
) -> int | None:
    """total / divisor as a derived value, or a problem with the nearest divisible totals."""
    if total % divisor == 0:
        return context.record(
            name, total // divisor, f"global {total} / ({factor} x data parallel {ranks})"
        )
    below, above = total // divisor * divisor, -(-total // divisor) * divisor
    nearest = f"{below} or {above}" if below else str(above)
    context.problem(
        ("batch", "global"),
        f"{total} is not a multiple of {factor} x data parallel {ranks} = {divisor}",
        f"global: {nearest}",
    )
    return None


# ------------------------------------------------------------------ model checks
#
# Whether the keys of `model` fit each other, for every framework.
#
# py`).


def check_model_keys(context: Context) -> None:
    """Heads of keys and values, and experts."""
    model = context.spec.model
    if model and model.layers:
        _check_heads(context, model)
        _check_experts(context, model)


def _check_heads(context: Context, model: Model) -> None:
    heads, found = model.heads, model.kv_heads
    if not found:
        return
    if found > heads:
        what = f"{found} kv_heads are more than the {heads} heads"
        hint = f"kv_heads: {heads} or less; heads that share keys and values are a group"
        context.problem(("model", "kv_heads"), what, hint)
    elif heads % found:
        divisors = [one for one in range(1, min(heads, 1000) + 1) if heads % one == 0]
        near = min(divisors, key=lambda one: abs(one - found))
        what = f"{heads} heads are not a multiple of {found} kv_heads"
        context.problem(("model", "kv_heads"), what, f"a divisor of {heads}: kv_heads: {near}")


def _check_experts(context: Context, model: Model) -> None:
    number, top_k = model.experts, model.experts_per_token
    if number and not top_k:
        what = "experts_per_token is missing: how many of the experts a token uses"
        context.problem(("model", "experts"), what, "add experts_per_token: 2")
    elif top_k and not number:
        what = "experts is missing: how many there are in a layer"
        context.problem(("model", "experts_per_token"), what, "add experts: 8, or remove it")
    elif number and top_k and top_k > number:
        what = f"{top_k} experts for each token, and {number} in all"
        context.problem(
            ("model", "experts_per_token"), what, f"experts_per_token: {number} or less"
        )
