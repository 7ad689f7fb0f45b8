"""Rules about Megatron-LM's `parallel`: stages, sequences, groups of ranks, experts.

Source: NVIDIA/Megatron-LM. core: megatron/core, which is the package megatron-core.
"""

from collections.abc import Iterator

from clusterjobs.errors import counted
from clusterjobs.frameworks.rules import Case, Finding, Rule, row, rule
from clusterjobs.frameworks.rules import GivenArguments as Given

_VALIDATE = "arguments.py, validate_args"
_CONFIG = "core/transformer/transformer_config.py"
_VIRTUAL = ("parallel", "virtual_pipeline")
_ENDS = ("decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers")
_ACCOUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")


@rule(
    "layers that pipeline x virtual_pipeline does not divide",
    "it asserts equal stages",
    f"{_VALIDATE}; {_CONFIG}",
)
def equal_stages(given: Given) -> Iterator[Finding]:
    model, parallel = given.task.spec.model, given.task.parallelism
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
    model, parallel = given.task.spec.model, given.task.parallelism
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
    "a sequence length that 2 x context does not divide",
    "it asserts that it does",
    _VALIDATE,
)
def sequence_of_context_ranks(given: Given) -> Iterator[Finding]:
    model, parts = given.task.spec.model, 2 * given.task.parallelism.context
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
    model, parallel = given.task.spec.model, given.task.parallelism
    parts = parallel.tensor * parallel.context
    if model and parallel.sequence and parallel.tensor > 1 and model.sequence % parts:
        above = -(-model.sequence // parts) * parts
        what = f"{model.sequence} is not a multiple of tensor x context = {parts}"
        yield Finding(("model", "sequence"), what, f"sequence: {above}, or sequence: false")


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


PARALLEL_RULES: tuple[Rule[Given], ...] = (
    row(
        "`virtual_pipeline` without a pipeline, or with one of 2 and "
        "`no-overlap-p2p-communication`",
        "it asserts a longer pipeline",
        _VALIDATE,
        Case(
            _VIRTUAL,
            "parallel.virtual_pipeline > 1, parallel.pipeline < 2, "
            "not no_overlap_p2p_communication",
            "pipeline is {parallel.pipeline}, and must be 2 at least",
            "parallel: {{pipeline: 2}}, or remove it",
        ),
        Case(
            _VIRTUAL,
            "parallel.virtual_pipeline > 1, parallel.pipeline < 3, no_overlap_p2p_communication",
            "pipeline is {parallel.pipeline}, and must be 3 at least",
            "parallel: {{pipeline: 3}}, or remove it",
        ),
    ),
    equal_stages,
    unequal_ends,
    interleaved_steps,
    row(
        "`pipeline-model-parallel-layout` beside `virtual_pipeline`",
        "it asserts one of them",
        _VALIDATE,
        Case(
            "pipeline_model_parallel_layout",
            "parallel.virtual_pipeline > 1",
            "the layout defines the virtual stages, too",
            "remove virtual_pipeline",
        ),
    ),
    row(
        "`sequence` without tensor ranks",
        "it switches it off, with a line in the log",
        _VALIDATE,
        Case(
            ("parallel", "sequence"),
            "parallel.sequence, parallel.tensor <= 1",
            "has no effect: tensor is 1",
            "parallel: {{tensor: 2}}, or remove it",
        ),
        warning=True,
    ),
    row(
        "`tp-comm-overlap` without `sequence`",
        "it asserts sequence parallelism",
        _VALIDATE,
        Case(
            "tp_comm_overlap",
            "not parallel.sequence or parallel.tensor <= 1",
            "needs tensor ranks that also divide the sequence",
            "parallel: {{tensor: 8, sequence: true}}",
        ),
    ),
    sequence_of_context_ranks,
    sequence_of_tensor_ranks,
    row(
        "`num-query-groups` that is neither a multiple nor a divisor of the tensor ranks, or that "
        "does not divide the heads",
        "it raises ValueError",
        f"{_CONFIG}; core/transformer/attention.py",
        Case(
            "num_query_groups",
            "group_query_attention, model.heads % it",
            "heads {model.heads} are not a multiple of {it:g} groups",
            "a divisor of {model.heads}",
        ),
        Case(
            "num_query_groups",
            "group_query_attention, not model.heads % it, it % parallel.tensor, "
            "parallel.tensor % it",
            "{it:g} groups are neither a multiple nor a divisor of tensor {parallel.tensor}",
            "a multiple of {parallel.tensor}",
        ),
    ),
    row(
        "`num-query-groups` without `group-query-attention`",
        "it ignores it: every head has its own keys and values",
        "arguments.py, core_transformer_config_from_args",
        Case(
            "num_query_groups",
            "not group_query_attention",
            "is ignored without group-query-attention",
            "add `group-query-attention: true` to args",
        ),
        warning=True,
    ),
    optimizer_instances,
)


# ------------------------------------------------------------------ experts


_STATE = "core/parallel_state.py, initialize_model_parallel"
_EXPERT = ("parallel", "expert")


def _tensor_of_experts(given: Given) -> int:
    written = int(given.number("expert_tensor_parallel_size") or 0)  # 0.5 is reported elsewhere
    return written or given.task.parallelism.tensor


@rule(
    "a world size that expert x tensor x pipeline does not divide (with "
    "`expert-tensor-parallel-size`, if given, in place of tensor)",
    "it raises RuntimeError",
    _STATE,
)
def groups_of_experts(given: Given) -> Iterator[Finding]:
    parallel, world = given.task.parallelism, given.task.shape.world_size
    tensor = _tensor_of_experts(given)
    ranks = parallel.expert * tensor * parallel.pipeline
    is_given = parallel.expert > 1 or given.has("expert_tensor_parallel_size")
    if is_given and world % ranks:
        yield Finding(
            _EXPERT,
            f"{counted(world, 'rank')} cannot be divided by expert {parallel.expert} x tensor of "
            f"experts {tensor} x pipeline {parallel.pipeline} = {ranks}",
            "a smaller expert, or args: {expert-tensor-parallel-size: 1}",
        )


@rule(
    "`use-tp-pp-dp-mapping` with a pipeline, and experts whose copies differ in number",
    "it asserts the same number",
    _STATE,
)
def order_of_ranks(given: Given) -> Iterator[Finding]:
    parallel = given.task.parallelism
    of_experts = parallel.expert * _tensor_of_experts(given)
    is_mapped = given.has("use_tp_pp_dp_mapping") and parallel.pipeline > 1
    if is_mapped and parallel.tensor * parallel.context != of_experts:
        what = f"tensor x context is not expert x tensor of experts = {of_experts}"
        yield given.finding("use_tp_pp_dp_mapping", what, "remove it, or make both equal")


@rule(
    "experts with a bias, and more than one tensor rank for them",
    "it asserts one tensor rank for the experts",
    _CONFIG,
)
def experts_with_bias(given: Given) -> Iterator[Finding]:
    has_bias = given.number("num_experts") and not given.has("disable_bias_linear")
    if has_bias and _tensor_of_experts(given) > 1:
        what = f"experts with a bias cannot be divided by tensor {_tensor_of_experts(given)}"
        hint = "add `disable-bias-linear: true`, or expert-tensor-parallel-size: 1"
        yield given.finding("num_experts", what, hint)


@rule(
    "`moe-router-group-topk` without `moe-router-num-groups`, or with one that does not divide the "
    "experts",
    "it raises ValueError, or asserts",
    _CONFIG,
)
def groups_of_the_router(given: Given) -> Iterator[Finding]:
    name, groups = "moe_router_group_topk", given.number("moe_router_num_groups")
    top, experts = given.number(name), given.number("num_experts")
    if top and not given.has("moe_router_num_groups"):
        yield given.finding(name, "needs moe-router-num-groups", "add `moe-router-num-groups: 8`")
    elif top and groups and (top > groups or (experts and experts % groups)):
        what = f"{top:g} of {groups:g} groups of {experts or 0:g} experts"
        yield given.finding(name, what, "groups that divide the experts, and no more than these")


@rule(
    "`moe-shared-expert-overlap` or `moe-enable-deepep` with another token dispatcher",
    "it raises ValueError",
    _CONFIG,
)
def dispatchers(given: Given) -> Iterator[Finding]:
    needed = {"moe_enable_deepep": "flex"}
    if given.has("moe_shared_expert_intermediate_size"):
        needed["moe_shared_expert_overlap"] = "alltoall"
    kind = given.text("moe_token_dispatcher_type") or "allgather"
    for name, wanted in needed.items():
        if given.has(name) and kind != wanted:
            what = f"does not work with the token dispatcher {kind}"
            yield given.finding(name, what, f"moe-token-dispatcher-type: {wanted}")


EXPERT_RULES: tuple[Rule[Given], ...] = (
    groups_of_experts,
    order_of_ranks,
    row(
        "`expert` without `num-experts`",
        "it asserts the number of experts",
        _VALIDATE,
        Case(
            _EXPERT,
            "parallel.expert > 1, not num_experts",
            "the number of experts of a layer is missing",
            "add `experts: 8, experts_per_token: 2` to model",
        ),
    ),
    row(
        "`num-experts` that `expert` does not divide",
        "it asserts that it does",
        _VALIDATE,
        Case(
            "num_experts",
            "it % parallel.expert",
            "{it:g} experts are not a multiple of parallel.expert {parallel.expert}",
            "a multiple of {parallel.expert}",
        ),
    ),
    row(
        "`expert` with fp16",
        "it asserts another precision",
        _VALIDATE,
        Case(
            ("precision",),
            "parallel.expert > 1, spec.precision == fp16",
            "expert parallelism has no fp16",
            "precision: bf16",
        ),
    ),
    row(
        "`moe-grouped-gemm` without bf16",
        "it asserts bf16",
        _VALIDATE,
        Case(
            "moe_grouped_gemm",
            "spec.precision != bf16",
            "needs bf16",
            "precision: bf16, or remove it",
        ),
    ),
    row(
        "`num-experts` with tensor ranks and without `sequence`",
        "it raises ValueError at the first step",
        "core/transformer/moe/moe_layer.py",
        Case(
            ("parallel", "tensor"),
            "num_experts > 0, parallel.tensor > 1, not parallel.sequence",
            "experts with tensor {parallel.tensor} need sequence parallelism",
            "parallel: {{sequence: true}}",
        ),
    ),
    experts_with_bias,
    row(
        "`moe-router-topk: 1` without `moe-router-pre-softmax`",
        "it raises ValueError",
        _CONFIG,
        Case(
            "moe_router_topk",
            "it == 1, not moe_router_pre_softmax, moe_router_score_function != sigmoid, "
            "moe_router_load_balancing_type != sinkhorn",
            "with one expert per token, the router's gradient would be zero",
            "add `moe-router-pre-softmax: true`",
        ),
    ),
    row(
        "`moe-router-enable-expert-bias` without `moe-router-score-function: sigmoid`",
        "it raises ValueError",
        _CONFIG,
        Case(
            "moe_router_enable_expert_bias",
            "moe_router_score_function != sigmoid",
            "needs the score function sigmoid",
            "add `moe-router-score-function: sigmoid`",
        ),
    ),
    groups_of_the_router,
    dispatchers,
    row(
        "`spec` beside `num-experts`",
        "it asserts that there is no spec",
        _VALIDATE,
        Case("spec", "num_experts > 0", "a model with experts cannot have a spec", "remove spec"),
    ),
)
