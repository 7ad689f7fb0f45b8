"""Rules about what Megatron-LM divides, offloads, computes again or stores in fewer bits.

Source: NVIDIA/Megatron-LM. core: megatron/core, which is the package megatron-core.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.given import GivenArguments as Given
from clusterjobs.frameworks.megatron_lm.connections import FSDP
from clusterjobs.frameworks.rules import Finding, Rule, rule

_VALIDATE = "arguments.py, validate_args"
_CONFIG = "core/transformer/transformer_config.py"


@rule(
    "`overlap-param-gather` without `overlap-grad-reduce` and a distributed optimizer",
    "it asserts both",
    _VALIDATE,
)
def overlapping_gather(given: Given) -> Iterator[Finding]:
    name = "overlap_param_gather"
    is_divided = given.has("use_distributed_optimizer") or given.has("use_megatron_fsdp")
    if given.has(name) and not is_divided:
        hint = "add `use-distributed-optimizer: true`, or remove it"
        yield given.finding(name, "needs use-distributed-optimizer", hint)
    elif given.has(name) and not given.has("overlap_grad_reduce"):
        hint = "add `overlap-grad-reduce: true`, or remove it"
        yield given.finding(name, "needs overlap-grad-reduce", hint)


_NEEDED_BY_FSDP2 = ("no_gradient_accumulation_fusion", "untie_embeddings_and_output_weights")


@rule(
    "`use-torch-fsdp2` with a pipeline, expert ranks, fp16 or a distributed optimizer, or without "
    "`no-gradient-accumulation-fusion` and `untie-embeddings-and-output-weights`",
    "it asserts these",
    _VALIDATE,
)
def torch_fsdp(given: Given) -> Iterator[Finding]:
    name, parallel = "use_torch_fsdp2", given.task.parallelism
    if not given.has(name):
        return
    for key in ("pipeline", "expert"):
        if getattr(parallel, key) > 1:
            what = f"use-torch-fsdp2 does not work with {key}: {getattr(parallel, key)}"
            yield Finding(("parallel", key), what, "remove it, or use-torch-fsdp2")
    if given.task.experiment.precision == "fp16":
        what = "use-torch-fsdp2 does not work with fp16"
        yield Finding(("precision",), what, "precision: bf16")
    if given.has("use_distributed_optimizer"):
        what = "FSDP divides the optimizer already"
        yield given.finding("use_distributed_optimizer", what, "remove it")
    for flag in _NEEDED_BY_FSDP2:
        if not given.has(flag):
            missing = flag.replace("_", "-")
            yield given.finding(name, f"needs {missing}", f"add `{missing}: true` to args")


_FORMATS = {"torch_dcp": "use_torch_fsdp2", "fsdp_dtensor": "use_megatron_fsdp"}


@rule(
    "`ckpt-format` torch_dcp or fsdp_dtensor without its FSDP, or `use-megatron-fsdp` without "
    "fsdp_dtensor",
    "it asserts them together",
    _VALIDATE,
)
def checkpoint_format(given: Given) -> Iterator[Finding]:
    kind = given.text("ckpt_format")
    needed = _FORMATS.get(kind or "")
    if needed and not given.has(needed):
        flag = needed.replace("_", "-")
        yield given.finding("ckpt_format", f"{kind} needs {flag}", "ckpt-format: torch_dist")
    elif given.has("use_megatron_fsdp") and kind != "fsdp_dtensor":
        what = "Megatron's FSDP saves in the format fsdp_dtensor alone"
        yield given.finding("use_megatron_fsdp", what, "add `ckpt-format: fsdp_dtensor`")


@rule(
    "full recomputation without `recompute-method` and `recompute-num-layers`",
    "it raises ValueError",
    _CONFIG,
)
def full_recomputation(given: Given) -> Iterator[Finding]:
    is_full = given.text("recompute_granularity") == "full"
    if not is_full or given.has("recompute_activations"):
        return
    for name, example in (("recompute_method", "uniform"), ("recompute_num_layers", "1")):
        if not given.has(name):
            flag = name.replace("_", "-")
            what = f"full recomputation needs {flag}"
            yield given.finding("recompute_granularity", what, f"add `{flag}: {example}`")


@rule(
    "`recompute-num-layers` with selective recomputation, or `distribute-saved-activations` with "
    "`sequence`",
    "it raises ValueError",
    _CONFIG,
)
def recomputation_of_parts(given: Given) -> Iterator[Finding]:
    is_selective = given.text("recompute_granularity") == "selective"
    if (is_selective or given.has("recompute_activations")) and given.has("recompute_num_layers"):
        what = "selective recomputation counts no layers"
        yield given.finding("recompute_num_layers", what, "remove it")
    if given.has("distribute_saved_activations") and given.task.parallelism.sequence:
        what = "sequence parallelism divides them already"
        yield given.finding("distribute_saved_activations", what, "remove it")


@rule(
    "`cpu-offloading-num-layers` with a pipeline, recomputation or as many layers as the model has",
    "it raises ValueError",
    _CONFIG,
)
def offloaded_activations(given: Given) -> Iterator[Finding]:
    name, model = "cpu_offloading_num_layers", given.task.experiment.model
    layers = given.number(name)
    if not layers:
        return
    if given.task.parallelism.pipeline > 1:
        yield given.finding(name, "does not work with a pipeline", "remove one of them")
    elif given.has("recompute_granularity") or given.has("recompute_activations"):
        yield given.finding(name, "does not work with recomputation", "remove one of them")
    elif model and layers >= model.layers:
        yield given.finding(name, f"the model has {model.layers} layers", "fewer layers")


@rule(
    "`optimizer-cpu-offload` without `use-precision-aware-optimizer`",
    "it asserts both",
    _VALIDATE,
)
def offloaded_optimizer(given: Given) -> Iterator[Finding]:
    name = "optimizer_cpu_offload"
    if given.has(name) and not given.has("use_precision_aware_optimizer"):
        what = "needs use-precision-aware-optimizer"
        yield given.finding(name, what, "add `use-precision-aware-optimizer: true`")


@rule(
    "`use-precision-aware-optimizer` without `use-distributed-optimizer`",
    "it asserts both",
    "core/optimizer/optimizer_config.py",
)
def precise_optimizer(given: Given) -> Iterator[Finding]:
    name = "use_precision_aware_optimizer"
    if given.has(name) and not given.has("use_distributed_optimizer"):
        what = "needs use-distributed-optimizer"
        yield given.finding(name, what, "add `use-distributed-optimizer: true`")


@rule(
    "fp8 and fp4 together, or `fp8-param-gather` without fp8 and without a divided optimizer",
    "it raises ValueError, or asserts",
    f"{_VALIDATE}; {_CONFIG}",
)
def eight_bits(given: Given) -> Iterator[Finding]:
    if given.has("fp8_format") and given.has("fp4_format"):
        yield given.finding("fp4_format", "fp8-format is given as well", "remove one of them")
    if not given.has("fp8_param_gather"):
        return
    if not given.has("fp8_format"):
        yield given.finding("fp8_param_gather", "needs fp8-format", "add `fp8-format: hybrid`")
    elif not any(given.has(one) for one in (*FSDP, "use_distributed_optimizer")):
        what = "needs use-distributed-optimizer"
        yield given.finding("fp8_param_gather", what, "add `use-distributed-optimizer: true`")


RULES: tuple[Rule[Given], ...] = (
    overlapping_gather,
    torch_fsdp,
    checkpoint_format,
    full_recomputation,
    recomputation_of_parts,
    offloaded_activations,
    offloaded_optimizer,
    precise_optimizer,
    eight_bits,
)
