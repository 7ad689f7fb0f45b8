"""Rules about Megatron-DeepSpeed's arguments: model, parallelism, precision, optimizer, data.

Source: deepspeedai/Megatron-DeepSpeed, megatron/arguments.py (validate_args), where none is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.ds_config_rules import offloads
from clusterjobs.frameworks.megatron_deepspeed.given import Given
from clusterjobs.frameworks.rules import Finding, Rule, rule

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
