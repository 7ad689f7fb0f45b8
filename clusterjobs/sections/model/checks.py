"""Whether the sizes of the model fit each other and can be divided, and its precision."""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.sections.context import Context
from clusterjobs.spec.keys.model import Model, Parallel
from clusterjobs.text import show


def check_model_keys(context: Context) -> None:
    """Check `kv_heads` and `experts`, for every framework."""
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


def check_division(context: Context, parallel: Parallel) -> None:
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


def check_precision(context: Context) -> None:
    """Refuse bf16 on V100, and warn of a precision that does not reach the program."""
    precision, args = context.numbers.precision, context.numbers.args
    node_type, command = context.placement.node_type, context.numbers.command or ()
    if precision is None:
        return
    if precision == "bf16" and node_type.gpu_model == "V100":
        context.problem(
            ("precision",), f"the V100 of {node_type.in_words} has no bf16", "precision: fp16"
        )
    words = (*args, *args.values()) if isinstance(args, Mapping) else args
    texts = (str(one) if isinstance(one, tuple) else show(one) for one in (*words, *command))
    is_passed_on = any(precision in text for text in texts)
    if not context.framework.reads_precision and not is_passed_on:
        context.problem(
            ("precision",),
            f"{context.framework.name} does not pass it on to your program",
            'pass it on: args: {precision: "{{ precision }}"}, as your program names it',
            warning=True,
        )
