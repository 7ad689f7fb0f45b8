"""Rules about Megatron-LM's `parallel`: stages, sequences, groups of ranks.

Source: NVIDIA/Megatron-LM. core: megatron/core, which is the package megatron-core.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.given import GivenArguments as Given
from clusterjobs.frameworks.rules import Finding, Rule, rule

_VALIDATE = "arguments.py, validate_args"
_CONFIG = "core/transformer/transformer_config.py"
_PIPELINE = ("parallel", "pipeline")
_VIRTUAL = ("parallel", "virtual_pipeline")
_ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
_ACCOUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")


@rule(
    "`virtual_pipeline` without a pipeline, or with one of 2 and `no-overlap-p2p-communication`",
    "it asserts a longer pipeline",
    _VALIDATE,
)
def interleaving(given: Given) -> Iterator[Finding]:
    parallel = given.task.parallelism
    least = 3 if given.has("no_overlap_p2p_communication") else 2
    if parallel.virtual_pipeline > 1 and parallel.pipeline < least:
        what = f"pipeline is {parallel.pipeline}, and must be {least} at least"
        yield Finding(_VIRTUAL, what, f"parallel: {{pipeline: {least}}}, or remove it")


@rule(
    "layers that pipeline x virtual_pipeline does not divide",
    "it asserts equal stages",
    f"{_VALIDATE}; {_CONFIG}",
)
def equal_stages(given: Given) -> Iterator[Finding]:
    model, parallel = given.task.experiment.model, given.task.parallelism
    if model is None or any(given.has(one) for one in (*_ENDS, "pipeline_model_parallel_layout")):
        return
    accounted = sum(given.has(one) for one in _ACCOUNTED)
    stages = parallel.pipeline * parallel.virtual_pipeline
    if (model.layers + accounted) % stages == 0:
        return
    counted = f"{model.layers} layers" + (f" and {accounted} more" if accounted else "")
    factors = f"pipeline {parallel.pipeline}"
    if parallel.virtual_pipeline > 1:
        factors += f" x virtual_pipeline {parallel.virtual_pipeline} = {stages}"
    below = (model.layers + accounted) // stages * stages - accounted
    nearest = f"{below} or {below + stages}" if below > 0 else str(below + stages)
    yield Finding(
        ("model", "layers"),
        f"{counted} are not a multiple of {factors}",
        f"layers: {nearest}, or decoder-last-pipeline-num-layers in args",
    )


@rule(
    "`decoder-first-pipeline-num-layers` or `-last-` that leave layers that the other stages "
    "cannot share equally",
    "it raises ValueError",
    _CONFIG,
)
def unequal_ends(given: Given) -> Iterator[Finding]:
    model, parallel = given.task.experiment.model, given.task.parallelism
    ends = {one: given.number(one) for one in _ENDS if given.has(one)}
    if model is None or not ends or None in ends.values():
        return
    rest, stages = model.layers - sum(filter(None, ends.values())), parallel.pipeline - len(ends)
    shares = [*filter(None, ends.values()), rest / stages if stages else 0]
    is_even = rest == 0 if stages == 0 else stages > 0 and rest > 0 and rest % stages == 0
    if not is_even or any(one % parallel.virtual_pipeline for one in shares):
        what = f"{rest:g} of {model.layers} layers remain for the other {stages} stages"
        if is_even:
            what = f"a stage's layers are not a multiple of virtual_pipeline {shares[0]:g}"
        yield given.finding(next(iter(ends)), what, "numbers that divide evenly, or remove it")


@rule(
    "accumulation steps of an interleaved pipeline that are not a multiple of its length",
    "it raises RuntimeError at the first step",
    "core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving",
)
def interleaved_steps(given: Given) -> Iterator[Finding]:
    parallel, samples = given.task.parallelism, given.task.samples
    if parallel.virtual_pipeline == 1 or parallel.pipeline == 1 or samples is None:
        return
    name, steps = "microbatch_group_size_per_virtual_pipeline_stage", samples.accumulation
    group = given.number(name) or parallel.pipeline
    if not parallel.pipeline <= group <= steps or 0 < steps % group < parallel.pipeline:
        what = f"{steps} accumulation steps in groups of {group:g} do not fill a pipeline of "
        what += str(parallel.pipeline)
        total = parallel.pipeline * samples.micro * parallel.data
        hint = f"global: a multiple of pipeline x micro x data parallel = {total}"
        yield Finding(("batch",), what, hint)


@rule(
    "`pipeline-model-parallel-layout` beside `virtual_pipeline`",
    "it asserts one of them",
    _VALIDATE,
)
def layout_beside_stages(given: Given) -> Iterator[Finding]:
    name = "pipeline_model_parallel_layout"
    if given.has(name) and given.task.parallelism.virtual_pipeline > 1:
        what = "the layout defines the virtual stages, too"
        yield given.finding(name, what, "remove virtual_pipeline")


@rule(
    "`sequence` without tensor ranks",
    "it switches it off, with a line in the log",
    _VALIDATE,
    warning=True,
)
def sequence_alone(given: Given) -> Iterator[Finding]:
    parallel = given.task.parallelism
    if parallel.sequence and parallel.tensor == 1:
        what = "has no effect: tensor is 1"
        yield Finding(("parallel", "sequence"), what, "parallel: {tensor: 2}, or remove it")


@rule("`tp-comm-overlap` without `sequence`", "it asserts sequence parallelism", _VALIDATE)
def overlap_without_sequence(given: Given) -> Iterator[Finding]:
    parallel = given.task.parallelism
    if given.has("tp_comm_overlap") and not (parallel.sequence and parallel.tensor > 1):
        what = "needs tensor ranks that also divide the sequence"
        yield given.finding("tp_comm_overlap", what, "parallel: {tensor: 8, sequence: true}")


@rule(
    "a sequence length that 2 x context does not divide",
    "it asserts that it does",
    _VALIDATE,
)
def sequence_of_context_ranks(given: Given) -> Iterator[Finding]:
    model, parts = given.task.experiment.model, 2 * given.task.parallelism.context
    if model and parts > 2 and model.sequence % parts:
        above = -(-model.sequence // parts) * parts
        what = f"{model.sequence} is not a multiple of 2 x context = {parts}"
        yield Finding(("model", "sequence"), what, f"sequence: {above}, or change context")


@rule(
    "a sequence length that the tensor ranks of `sequence` do not divide",
    "it asserts that they do, at the first step",
    "core/tensor_parallel/mappings.py",
)
def sequence_of_tensor_ranks(given: Given) -> Iterator[Finding]:
    model, parallel = given.task.experiment.model, given.task.parallelism
    parts = parallel.tensor * parallel.context
    if model and parallel.sequence and parallel.tensor > 1 and model.sequence % parts:
        above = -(-model.sequence // parts) * parts
        what = f"{model.sequence} is not a multiple of tensor x context = {parts}"
        yield Finding(("model", "sequence"), what, f"sequence: {above}, or sequence: false")


@rule(
    "`num-query-groups` that is neither a multiple nor a divisor of the tensor ranks, or that "
    "does not divide the heads",
    "it raises ValueError",
    f"{_CONFIG}; core/transformer/attention.py",
)
def query_groups(given: Given) -> Iterator[Finding]:
    groups, model = given.number("num_query_groups"), given.task.experiment.model
    tensor = given.task.parallelism.tensor
    if not groups or not given.has("group_query_attention"):
        return
    if model and model.heads % groups:
        what = f"heads {model.heads} are not a multiple of {groups:g} groups"
        yield given.finding("num_query_groups", what, f"a divisor of {model.heads}")
    elif groups % tensor and tensor % groups:
        what = f"{groups:g} groups are neither a multiple nor a divisor of tensor {tensor}"
        yield given.finding("num_query_groups", what, f"a multiple of {tensor}")


@rule(
    "`num-query-groups` without `group-query-attention`",
    "it ignores it: every head has its own keys and values",
    "arguments.py, core_transformer_config_from_args",
    warning=True,
)
def query_groups_ignored(given: Given) -> Iterator[Finding]:
    if given.has("num_query_groups") and not given.has("group_query_attention"):
        what = "is ignored without group-query-attention"
        yield given.finding("num_query_groups", what, "add `group-query-attention: true` to args")


@rule(
    "`num-distributed-optimizer-instances` that does not divide data parallel x context",
    "it asserts that it does",
    "core/parallel_state.py, initialize_model_parallel",
)
def optimizer_instances(given: Given) -> Iterator[Finding]:
    name, parallel = "num_distributed_optimizer_instances", given.task.parallelism
    instances, copies = given.number(name), parallel.data * parallel.context
    if instances and copies % instances:
        what = f"data parallel x context = {copies} is not a multiple of {instances:g}"
        yield given.finding(name, what, f"a divisor of {copies}")


RULES: tuple[Rule[Given], ...] = (
    interleaving,
    equal_stages,
    unequal_ends,
    interleaved_steps,
    layout_beside_stages,
    sequence_alone,
    overlap_without_sequence,
    sequence_of_context_ranks,
    sequence_of_tensor_ranks,
    query_groups,
    query_groups_ignored,
    optimizer_instances,
)
