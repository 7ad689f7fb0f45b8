"""Rules about Megatron-LM's mixture of experts.

Source: NVIDIA/Megatron-LM. core: megatron/core, which is the package megatron-core.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.counted import counted
from clusterjobs.frameworks.given import GivenArguments as Given
from clusterjobs.frameworks.rules import Finding, Rule, rule

_VALIDATE = "arguments.py, validate_args"
_CONFIG = "core/transformer/transformer_config.py"
_STATE = "core/parallel_state.py, initialize_model_parallel"
_EXPERT = ("parallel", "expert")


def _tensor_of_experts(given: Given) -> int:
    return int(given.number("expert_tensor_parallel_size") or given.task.parallelism.tensor)


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


@rule("`expert` without `num-experts`", "it asserts the number of experts", _VALIDATE)
def experts_missing(given: Given) -> Iterator[Finding]:
    if given.task.parallelism.expert > 1 and not given.has("num_experts"):
        what = "num-experts is missing: the experts of a layer"
        yield Finding(_EXPERT, what, "add `num-experts: 8` to args")


@rule("`num-experts` that `expert` does not divide", "it asserts that it does", _VALIDATE)
def experts_per_rank(given: Given) -> Iterator[Finding]:
    experts, expert = given.number("num_experts"), given.task.parallelism.expert
    if experts and experts % expert:
        what = f"{experts:g} experts are not a multiple of parallel.expert {expert}"
        yield given.finding("num_experts", what, f"a multiple of {expert}")


@rule("`expert` with fp16", "it asserts another precision", _VALIDATE)
def experts_in_fp16(given: Given) -> Iterator[Finding]:
    if given.task.parallelism.expert > 1 and given.task.experiment.precision == "fp16":
        yield Finding(("precision",), "expert parallelism has no fp16", "precision: bf16")


@rule("`moe-grouped-gemm` without bf16", "it asserts bf16", _VALIDATE)
def grouped_gemm(given: Given) -> Iterator[Finding]:
    if given.has("moe_grouped_gemm") and given.task.experiment.precision != "bf16":
        yield given.finding("moe_grouped_gemm", "needs bf16", "precision: bf16, or remove it")


@rule(
    "`num-experts` with tensor ranks and without `sequence`",
    "it raises ValueError at the first step",
    "core/transformer/moe/moe_layer.py",
)
def experts_without_sequence(given: Given) -> Iterator[Finding]:
    parallel = given.task.parallelism
    if given.number("num_experts") and parallel.tensor > 1 and not parallel.sequence:
        what = f"experts with tensor {parallel.tensor} need sequence parallelism"
        yield Finding(("parallel", "tensor"), what, "parallel: {sequence: true}")


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
    "`moe-router-topk: 1` without `moe-router-pre-softmax`",
    "it raises ValueError",
    _CONFIG,
)
def one_expert_per_token(given: Given) -> Iterator[Finding]:
    is_other = given.text("moe_router_score_function") == "sigmoid"
    is_other |= given.text("moe_router_load_balancing_type") == "sinkhorn"
    is_other |= given.has("moe_router_pre_softmax")
    if given.number("moe_router_topk") == 1 and not is_other:
        what = "with one expert per token, the router's gradient would be zero"
        yield given.finding("moe_router_topk", what, "add `moe-router-pre-softmax: true`")


@rule(
    "`moe-router-enable-expert-bias` without `moe-router-score-function: sigmoid`",
    "it raises ValueError",
    _CONFIG,
)
def bias_of_the_router(given: Given) -> Iterator[Finding]:
    name = "moe_router_enable_expert_bias"
    if given.has(name) and given.text("moe_router_score_function") != "sigmoid":
        hint = "add `moe-router-score-function: sigmoid`"
        yield given.finding(name, "needs the score function sigmoid", hint)


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


@rule("`spec` beside `num-experts`", "it asserts that there is no spec", _VALIDATE)
def spec_beside_experts(given: Given) -> Iterator[Finding]:
    if given.number("num_experts") and given.has("spec"):
        yield given.finding("spec", "a model with experts cannot have a spec", "remove spec")


RULES: tuple[Rule[Given], ...] = (
    groups_of_experts,
    order_of_ranks,
    experts_missing,
    experts_per_rank,
    experts_in_fp16,
    grouped_gemm,
    experts_without_sequence,
    experts_with_bias,
    one_expert_per_token,
    bias_of_the_router,
    groups_of_the_router,
    dispatchers,
    spec_beside_experts,
)
