"""Rules about Megatron-LM's data, checkpoints, variables and end.

Source: NVIDIA/Megatron-LM, megatron/training/arguments.py (validate_args), where none is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.megatron_lm.command_line import FSDP, NAME, needs_one_connection
from clusterjobs.frameworks.rules import Finding, Rule, rule
from clusterjobs.frameworks.rules import GivenArguments as Given

_VALIDATE = "arguments.py, validate_args"


@rule(
    "another CUDA_DEVICE_MAX_CONNECTIONS than 1 with tensor or context ranks before Blackwell, or "
    "1 with FSDP",
    "it asserts the other value",
    _VALIDATE,
)
def connections(given: Given) -> Iterator[Finding]:
    value = given.task.experiment.env.get(NAME)
    if value is None or not value.isdecimal():
        return
    if value != "1" and needs_one_connection(given.task):
        what = f"{value}, and Megatron-LM asserts 1 with tensor or context ranks on these GPUs"
        yield Finding(("env", NAME), what, "remove it: clusterjobs sets it")
    for name in FSDP:
        if value == "1" and given.has(name):
            what = f"1, and {name.replace('_', '-')} asserts more"
            yield Finding(("env", NAME), what, "remove it")


@rule(
    "`pipeline-model-parallel-comm-backend: ucc` where CUDA_DEVICE_MAX_CONNECTIONS is 1",
    "it asserts more connections",
    "core/parallel_state.py, initialize_model_parallel",
)
def ucc(given: Given) -> Iterator[Finding]:
    name = "pipeline_model_parallel_comm_backend"
    if given.text(name) == "ucc" and needs_one_connection(given.task):
        what = f"ucc needs {NAME} above 1, and tensor or context ranks need 1"
        yield given.finding(name, what, "remove it: nccl is the default")


@rule(
    "`deterministic-mode` without NCCL_ALGO, or with `use-flash-attn`",
    "it asserts the variable, and no flash attention",
    _VALIDATE,
)
def deterministic(given: Given) -> Iterator[Finding]:
    if not given.has("deterministic_mode"):
        return
    if "NCCL_ALGO" not in given.task.experiment.env:
        what = "needs NCCL_ALGO: otherwise NCCL chooses an algorithm, and their sums differ"
        yield given.finding("deterministic_mode", what, "add env: {NCCL_ALGO: Ring}")
    for name in ("use_flash_attn", "cross_entropy_loss_fusion"):
        if given.has(name):
            yield given.finding(name, "is not deterministic", "remove it, or deterministic-mode")


_SPLITS = ("train_data_path", "valid_data_path", "test_data_path")


@rule(
    "two of `mock-data`, `data-path`, `data-args-path` and paths of each split",
    "it asserts one source of data",
    _VALIDATE,
)
def one_source_of_data(given: Given) -> Iterator[Finding]:
    splits = next((one for one in _SPLITS if given.has(one)), None)
    found = [one for one in ("mock_data", "data_path", splits) if one and given.has(one)]
    found += ["data_args_path"] * (given.has("data_args_path") and given.has("data_path"))
    if len(found) > 1:
        other = found[0].replace("_", "-")
        yield given.finding(found[-1], f"{other} is given as well", "remove one of them")


@rule("`NullTokenizer` without `vocab-size`", "it fails when it pads the vocabulary", "tokenizer")
def null_tokenizer(given: Given) -> Iterator[Finding]:
    if given.text("tokenizer_type") == "NullTokenizer" and not given.has("vocab_size"):
        hint = "add `vocab-size: 50257` to args"
        yield given.finding("tokenizer_type", "NullTokenizer needs vocab-size", hint)


@rule(
    "`save-retain-interval` that is not a multiple of `save-interval`",
    "it asserts that it is",
    _VALIDATE,
)
def retained_checkpoints(given: Given) -> Iterator[Finding]:
    kept, saved = given.number("save_retain_interval"), given.number("save_interval")
    if kept and saved and kept % saved:
        what = f"{kept:g} is not a multiple of save-interval {saved:g}"
        yield given.finding("save_retain_interval", what, f"for example {saved * 10:g}")


@rule(
    "`finetune`, `no-load-optim` or `ckpt-step` with `restarts`",
    "each attempt starts from iteration 0, with new optimizer states, or from the same step",
    "checkpointing.py, load_checkpoint",
    warning=True,
)
def attempts_that_forget(given: Given) -> Iterator[Finding]:
    for name in ("finetune", "no_load_optim", "ckpt_step"):
        if given.task.experiment.restarts and given.has(name):
            what = "applies to every attempt, also to those that resume"
            hint = "use pretrained-checkpoint in args: only the first attempt reads it"
            yield given.finding(name, what, hint)


@rule(
    "`exit-signal-handler` with torchrun",
    "torchrun sends SIGKILL 30 s after SIGTERM, perhaps while the checkpoint is written",
    "torch/distributed/elastic/multiprocessing/api.py",
    warning=True,
)
def signals_under_torchrun(given: Given) -> Iterator[Finding]:
    is_torchrun = given.task.experiment.launcher in (None, "torchrun")
    if given.has("exit_signal_handler") and is_torchrun:
        what = "torchrun kills the ranks 30 s after SIGTERM"
        yield given.finding("exit_signal_handler", what, "launcher: srun")


_REMOVED = {
    "warmup": "lr-warmup-fraction",
    "checkpoint_activations": "recompute-activations",
}


@rule("`warmup` or `checkpoint-activations`", "it stops, and names the new flag", _VALIDATE)
def removed_flags(given: Given) -> Iterator[Finding]:
    for name, successor in _REMOVED.items():
        if given.has(name):
            yield given.finding(name, "Megatron-LM has removed it", f"write {successor}")


RULES: tuple[Rule[Given], ...] = (
    connections,
    ucc,
    deterministic,
    one_source_of_data,
    null_tokenizer,
    retained_checkpoints,
    attempts_that_forget,
    signals_under_torchrun,
    removed_flags,
)


# ------------------------------------------------------------------ memory rules
#
# Rules about what Megatron-LM divides, offloads, computes again or stores in fewer bits.
#
# Source: NVIDIA/Megatron-LM. core: megatron/core, which is the package megatron-core.


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


MEMORY_RULES: tuple[Rule[Given], ...] = (
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
