"""Parallel sizes and batch sizes, and which must be divisible by which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import InputError, Problem, counted
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Parallelism, Samples, Shape
from clusterjobs.sections.context import Context
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.model import Model, ModelOfConfig, Parallel, default_parallel
from clusterjobs.text import Text, Value, expanding, show
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document

if TYPE_CHECKING:
    from clusterjobs.models.huggingface import Found
    from clusterjobs.models.records import ModelShape


# ------------------------------------------------------------------ checks
# Whether the sizes of the model fit each other and can be divided, and its precision.


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
    foreseen = context.framework.foreseen(context.spec, context.options, context.texts)
    if model.vocab is not None and (multiple := foreseen.vocab_multiple):
        context.record(
            "model.vocab_padded",
            -(-model.vocab // (multiple * tensor)) * multiple * tensor,
            f"vocab {model.vocab} up to a multiple of {multiple} x tensor {tensor}",
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
    """Refuse bf16 on V100; warn if none is chosen, or if it does not reach the program."""
    precision, args = context.numbers.precision, context.numbers.args
    framework = context.framework
    node_type, command = context.placement.node_type, context.numbers.command or ()
    words = (*args, *args.values()) if isinstance(args, Mapping) else args
    texts = [str(one) if isinstance(one, tuple) else show(one) for one in (*words, *command)]
    if precision is None:
        if not any("fp16" in text or "bf16" in text for text in texts):
            _warn_of_fp32(context)
        return
    if precision == "bf16" and node_type.gpu_model == "V100":
        context.problem(
            ("precision",), f"the V100 of {node_type.in_words} has no bf16", "precision: fp16"
        )
    is_passed_on = any(precision in text for text in texts)
    if not framework.reads_precision and not is_passed_on:
        context.problem(
            ("precision",),
            f"{framework.name} does not pass it on to your program",
            'pass it on: args: {precision: "{{ precision }}"}, as your program names it',
            warning=True,
        )


def _warn_of_fp32(context: Context) -> None:
    """Warn of a framework that trains in fp32 if nobody says the precision."""
    halves = context.framework.half_precisions(context.spec, context.options)
    node_type = context.placement.node_type
    if not halves or not node_type.gpus:
        return
    half = halves[-1] if node_type.gpu_model == "V100" else halves[0]
    context.problem(
        ("precision",),
        f"precision is missing: {context.framework.name} then trains in fp32, several times "
        f"slower than in {half}",
        f"add precision: {half}, or fp32 if it is meant",
        warning=True,
    )


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


# ------------------------------------------------------------------ config
# `model: {config: FILE}`: the sizes of the model from a config.json in Hugging Face's format.
# It joins the file's text with the spec; what its keys mean is in models/huggingface.py.


_SIZES = ("layers", "hidden", "heads", "sequence")


def config_of(model: Model | None) -> tuple[str, ...]:
    """The file, if the model has one."""
    return (show(model.config),) if isinstance(model, ModelOfConfig) else ()


def with_model_config(
    spec: Experiment, texts: Mapping[str, str], diagnostics: Diagnostics
) -> Experiment:
    """The spec with the sizes of the file, where the spec has none of its own.

    Of an architecture that is not known there are none: a warning, and the job has no model.
    """
    model = spec.model
    if not isinstance(model, ModelOfConfig):
        return spec
    shape, is_unknown = _shape(model.config, texts, diagnostics)
    if is_unknown:
        return spec.model_copy(update={"model": None})
    if shape is None:  # all sizes are 0, also those of the spec, and nothing else is said of them
        unknown = model.model_copy(update=dict.fromkeys(_SIZES, 0))
        return spec.model_copy(update={"model": unknown})
    return spec.model_copy(update={"model": completed(model, shape)})


def completed(model: ModelOfConfig, shape: ModelShape) -> ModelOfConfig:
    """All keys of `model`: its own first, then the file's, which were checked as they were read."""
    experts = shape.experts
    found: dict[str, Any] = {
        **{name: getattr(shape, name) for name in (*_SIZES, "vocab", "tied")},
        "kv_heads": shape.kv_heads if shape.kv_heads != shape.heads else None,
        "ffn": experts.ffn if experts else shape.ffn,
        "glu": shape.gated,
        "experts": experts.number if experts else None,
        "experts_per_token": experts.top_k if experts else None,
    }
    own = {name: getattr(model, name) for name in model.model_fields_set}
    return ModelOfConfig.model_construct(**{**found, **own})


def record_sequence(written: Model | None, model: Model | None, provenance: Provenance) -> None:
    """The file says the longest sequence that the model takes; few trainings are that long."""
    if isinstance(written, ModelOfConfig) and model and model.layers and not written.sequence:
        why = f"the longest that {show(written.config)} allows; model.sequence may be shorter"
        provenance.record("model.sequence", model.sequence, why)


def shape_in_text(name: str, text: str) -> ModelShape | None:
    """The shape that the file describes; None if it is wrong, which `with_model_config` reports."""
    from clusterjobs.models.huggingface import shape_of_config

    try:
        data = _document(name, text).value
    except InputError:
        return None
    return shape_of_config(data).shape if isinstance(data, dict) else None


def _shape(
    file: Value, texts: Mapping[str, str], diagnostics: Diagnostics
) -> tuple[ModelShape | None, bool]:
    """The shape, None if the file is wrong, and whether its architecture is not known."""
    where = ("model", "config")
    name = expanding(file)
    if isinstance(name, Text):
        what = "the file is read when the job is rendered"
        diagnostics.problem(where, what, "write its path without variables")
        return None, False
    if name not in texts:
        what = f"there is no file {name} beside the spec or in workdir"
        hint = "copy the model's config.json there, or write layers, hidden, heads and sequence"
        diagnostics.problem(where, what, hint)
        return None, False
    try:
        document = _document(name, texts[name])
    except InputError as error:
        diagnostics.add(error.problems)
        return None, False
    if not isinstance(document.value, dict):
        what = f"{show(name)} is not a config.json, which is a mapping of keys"
        diagnostics.problem(where, what, "save_pretrained() of transformers writes one")
        return None, False
    from clusterjobs.models.huggingface import shape_of_config

    found = shape_of_config(document.value)
    diagnostics.add(_problems(found, document))
    return found.shape, found.is_unknown


def _document(name: str, text: str) -> Document:
    # In JSON, a tab can only be indentation, which YAML does not allow.
    return yaml_document.load(text.replace("\t", " "), name)


def _problems(found: Found, document: Document) -> list[Problem]:
    return [
        Problem(one.what, document.locate((one.key,)), one.key, one.hint, found.is_unknown)
        for one in found.mistakes
    ]
