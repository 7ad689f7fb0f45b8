"""Rules about Megatron-LM's data, checkpoints, variables and end.

Source: NVIDIA/Megatron-LM, megatron/training/arguments.py (validate_args), where none is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.given import GivenArguments as Given
from clusterjobs.frameworks.megatron_lm.connections import (
    FSDP,
    NAME,
    needs_one_connection,
)
from clusterjobs.frameworks.rules import Finding, Rule, rule

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
