"""Rules about arguments that Megatron-DeepSpeed silently ignores or changes.

Source: deepspeedai/Megatron-DeepSpeed, where no other is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.ds_config import leaves
from clusterjobs.frameworks.megatron_deepspeed.given import Given
from clusterjobs.frameworks.rules import Finding, Rule, rule


@rule(
    "`sequence-parallel` without tensor ranks",
    "it silently switches it off",
    "megatron/arguments.py, validate_args",
    warning=True,
)
def sequence_parallel_alone(given: Given) -> Iterator[Finding]:
    if given.has("sequence_parallel") and given.task.parallelism.tensor == 1:
        what = "has no effect: tensor is 1"
        yield given.finding("sequence_parallel", what, "parallel: {tensor: 2}, or remove it")


@rule(
    "`attention-softmax-in-fp32` without `no-query-key-layer-scaling`",
    "it ignores it",
    "megatron/arguments.py, _add_mixed_precision_args",
    warning=True,
)
def softmax_precision(given: Given) -> Iterator[Finding]:
    if given.has("attention_softmax_in_fp32") and not given.has("no_query_key_layer_scaling"):
        what = "is ignored without no-query-key-layer-scaling"
        hint = "add `no-query-key-layer-scaling: true`, or remove it"
        yield given.finding("attention_softmax_in_fp32", what, hint)


@rule(
    "`use-distributed-optimizer` under DeepSpeed",
    "it hands DeepSpeed a plain optimizer: only ZeRO divides its states",
    "megatron/optimizer/__init__.py",
    warning=True,
)
def distributed_optimizer(given: Given) -> Iterator[Finding]:
    if given.has("use_distributed_optimizer"):
        what = "is ignored with DeepSpeed, which divides the optimizer by ZeRO"
        yield given.finding("use_distributed_optimizer", what, "zero: {stage: 1} instead")


@rule(
    "flags of the loss scale without fp16",
    "DeepSpeed scales no loss",
    "DeepSpeed runtime/engine.py",
    warning=True,
)
def loss_scale_without_fp16(given: Given) -> Iterator[Finding]:
    names = ("loss_scale", "initial_loss_scale", "min_loss_scale", "loss_scale_window")
    for name in names if given.task.experiment.precision != "fp16" else ():
        if given.has(name):
            yield given.finding(name, "only fp16 scales the loss", "remove it, or precision: fp16")


@rule(
    "a scheduler, or an optimizer other than Adam, in ds_config",
    "DeepSpeed uses Megatron's and ignores the config's",
    "DeepSpeed runtime/engine.py, _configure_optimizer, _configure_lr_scheduler",
    warning=True,
)
def another_optimizer(given: Given) -> Iterator[Finding]:
    kind = given.config.section("optimizer").get("type")
    if isinstance(kind, str) and kind.lower() not in ("adam", "adamw"):
        what = f"{kind} is not used: Megatron makes the optimizer"
        yield Finding(("ds_config", "optimizer", "type"), what, "args: {optimizer: adam}, or sgd")
    if "scheduler" in given.config.own:
        what = "is not used: Megatron makes the scheduler"
        yield Finding(
            ("ds_config", "scheduler"), what, "lr-decay-style and lr-warmup-iters in args"
        )


@rule(
    "`data-path` beside `train-data-path`, `valid-data-path` or `test-data-path`",
    "it reads data-path and ignores the others",
    "megatron/data/gpt_dataset.py",
    warning=True,
)
def data_twice(given: Given) -> Iterator[Finding]:
    for name in ("train_data_path", "valid_data_path", "test_data_path"):
        if given.has("data_path") and given.has(name):
            yield given.finding(name, "is ignored beside data-path", "remove one of them")


@rule(
    "`auto` in ds_config",
    "Hugging Face's Trainer would fill it in; DeepSpeed uses its defaults, or fails",
    "DeepSpeed runtime/config_utils.py",
    warning=True,
)
def values_left_open(given: Given) -> Iterator[Finding]:
    for path, value in leaves(given.config.own, ()):
        if value == "auto":
            what = "auto: Megatron-DeepSpeed does not fill it in"
            yield Finding(("ds_config", *path), what, "write a value, or remove it")


RULES: tuple[Rule[Given], ...] = (
    sequence_parallel_alone,
    softmax_precision,
    distributed_optimizer,
    loss_scale_without_fp16,
    another_optimizer,
    data_twice,
    values_left_open,
)
