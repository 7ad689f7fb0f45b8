"""What a rule about Megatron-DeepSpeed's arguments looks at: its flags, and DeepSpeed's config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.frameworks.base import Task
from clusterjobs.frameworks.ds_config import leaves
from clusterjobs.frameworks.ds_config_rules import DsConfig, offloads
from clusterjobs.frameworks.rules import Finding, GivenArguments, Rule, rule


@dataclass(frozen=True)
class Given(GivenArguments):
    """A spec's arguments, and DeepSpeed's config."""

    config: DsConfig


def given_of(task: Task, config: DsConfig) -> Given:
    """The arguments of a task's spec."""
    return Given(task, {one.key: one for one in given_arguments(task.experiment)}, config)


# ------------------------------------------------------------------ model rules
#
# Rules about Megatron-DeepSpeed's arguments: model, parallelism, precision, optimizer, data.
#
# Source: deepspeedai/Megatron-DeepSpeed, megatron/arguments.py (validate_args), where none is
# named.


_VALIDATE = "megatron/arguments.py, validate_args"
_OPTIMIZER = "megatron/optimizer/__init__.py"


@rule(
    "`num-key-value-heads` that does not divide the heads",
    "it asserts that it does",
    _VALIDATE,
)
def key_value_heads(given: Given) -> Iterator[Finding]:
    heads, model = given.number("num_key_value_heads"), given.task.experiment.model
    if heads and model and model.heads % heads:
        what = f"heads {model.heads} are not a multiple of {heads:g} key-value heads"
        yield given.finding("num_key_value_heads", what, f"a divisor of {model.heads}")


@rule(
    "`num-key-value-heads` that the tensor ranks do not divide",
    "it fails when it builds the attention",
    "megatron/model/transformer.py",
    warning=True,
)
def key_value_heads_per_rank(given: Given) -> Iterator[Finding]:
    heads, tensor = given.number("num_key_value_heads"), given.task.parallelism.tensor
    if heads and heads % tensor:
        what = f"{heads:g} key-value heads are not a multiple of tensor {tensor}"
        yield given.finding("num_key_value_heads", what, f"a multiple of {tensor}")


@rule(
    "`num-layers-per-virtual-pipeline-stage` with fewer than three stages, or that does not divide "
    "the layers",
    "it asserts both",
    _VALIDATE,
)
def virtual_stages(given: Given) -> Iterator[Finding]:
    name = "num_layers_per_virtual_pipeline_stage"
    layers, model = given.number(name), given.task.experiment.model
    if given.has(name) and given.task.parallelism.pipeline <= 2:
        what = f"pipeline is {given.task.parallelism.pipeline}, and must be 3 at least"
        yield given.finding(name, what, "remove it, or a longer pipeline")
    elif layers and model and model.layers % layers:
        what = f"{model.layers} layers are not a multiple of {layers:g}"
        yield given.finding(name, what, f"a divisor of {model.layers}")


@rule(
    "bf16, or gradients in fp32, with `DDP-impl` torch or FSDP",
    "it asserts DDP-impl local",
    _VALIDATE,
)
def gradients_in_fp32(given: Given) -> Iterator[Finding]:
    names = ("accumulate_allreduce_grads_in_fp32", "use_distributed_optimizer")
    is_fp32 = given.task.experiment.precision == "bf16" or any(given.has(name) for name in names)
    if is_fp32 and given.text("DDP_impl") in ("torch", "FSDP"):
        yield given.finding("DDP_impl", "gradients in fp32 need DDP-impl local", "remove it")


@rule(
    "`offload_optimizer` in ds_config without `cpu-optimizer`",
    "DeepSpeed raises ZeRORuntimeException",
    "DeepSpeed runtime/engine.py, _configure_optimizer",
)
def offload_without_cpu_optimizer(given: Given) -> Iterator[Finding]:
    config = given.config
    any_optimizer = config.own.get("zero_force_ds_cpu_optimizer") is False
    is_offloaded = bool(config.stage) and offloads(config, "offload_optimizer")
    if is_offloaded and not any_optimizer and not given.has("cpu_optimizer"):
        yield Finding(
            ("ds_config", "zero_optimization", "offload_optimizer"),
            "needs an optimizer that runs on the CPU",
            "add `cpu-optimizer: true` to args",
        )


@rule("`cpu-optimizer` with `optimizer: sgd`", "it asserts Adam", _OPTIMIZER)
def cpu_optimizer_of_another_kind(given: Given) -> Iterator[Finding]:
    if given.has("cpu_optimizer") and given.text("optimizer") == "sgd":
        yield given.finding("optimizer", "cpu-optimizer is for adam alone", "optimizer: adam")


RULES: tuple[Rule[Given], ...] = (
    key_value_heads,
    key_value_heads_per_rank,
    virtual_stages,
    gradients_in_fp32,
    offload_without_cpu_optimizer,
    cpu_optimizer_of_another_kind,
)


# ------------------------------------------------------------------ silent rules
#
# Rules about arguments that Megatron-DeepSpeed silently ignores or changes.
#
# Source: deepspeedai/Megatron-DeepSpeed, where no other is named.


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


SILENT_RULES: tuple[Rule[Given], ...] = (
    sequence_parallel_alone,
    softmax_precision,
    distributed_optimizer,
    loss_scale_without_fp16,
    another_optimizer,
    data_twice,
    values_left_open,
)
