"""Rules about Megatron-DeepSpeed's arguments, and about the config of DeepSpeed beside them.

Source: deepspeedai/Megatron-DeepSpeed, where no other is named.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from clusterjobs.frameworks.ds_config import leaves
from clusterjobs.frameworks.ds_config_rules import DsConfig, offloads
from clusterjobs.frameworks.rules import Case, Finding, GivenArguments, Rule, row, rule


@dataclass(frozen=True)
class Given(GivenArguments):
    """A spec's arguments, and DeepSpeed's config."""

    config: DsConfig


_VALIDATE = "megatron/arguments.py, validate_args"
_OPTIMIZER = "megatron/optimizer/__init__.py"


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


MODEL_RULES: tuple[Rule[Given], ...] = (
    row(
        "`num-key-value-heads` that does not divide the heads",
        "it asserts that it does",
        _VALIDATE,
        Case(
            "num_key_value_heads",
            "model.heads % it",
            "heads {model.heads} are not a multiple of {it:g} key-value heads",
            "a divisor of {model.heads}",
        ),
    ),
    row(
        "`num-key-value-heads` that the tensor ranks do not divide",
        "it fails when it builds the attention",
        "megatron/model/transformer.py",
        Case(
            "num_key_value_heads",
            "it % parallel.tensor",
            "{it:g} key-value heads are not a multiple of tensor {parallel.tensor}",
            "a multiple of {parallel.tensor}",
        ),
        warning=True,
    ),
    row(
        "`num-layers-per-virtual-pipeline-stage` with fewer than three stages, or that does not "
        "divide the layers",
        "it asserts both",
        _VALIDATE,
        Case(
            "num_layers_per_virtual_pipeline_stage",
            "parallel.pipeline <= 2",
            "pipeline is {parallel.pipeline}, and must be 3 at least",
            "remove it, or a longer pipeline",
        ),
        Case(
            "num_layers_per_virtual_pipeline_stage",
            "parallel.pipeline > 2, model.layers % it",
            "{model.layers} layers are not a multiple of {it:g}",
            "a divisor of {model.layers}",
        ),
    ),
    row(
        "bf16, or gradients in fp32, with `DDP-impl` torch or FSDP",
        "it asserts DDP-impl local",
        _VALIDATE,
        Case(
            "DDP_impl",
            "it == torch|FSDP, spec.precision == bf16 or accumulate_allreduce_grads_in_fp32 "
            "or use_distributed_optimizer",
            "gradients in fp32 need DDP-impl local",
            "remove it",
        ),
    ),
    offload_without_cpu_optimizer,
    row(
        "`cpu-optimizer` with `optimizer: sgd`",
        "it asserts Adam",
        _OPTIMIZER,
        Case(
            "optimizer",
            "it == sgd, cpu_optimizer",
            "cpu-optimizer is for adam alone",
            "optimizer: adam",
        ),
    ),
)


# ------------------------------------------------------------------ silently ignored or changed


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
    row(
        "`sequence-parallel` without tensor ranks",
        "it silently switches it off",
        _VALIDATE,
        Case(
            "sequence_parallel",
            "parallel.tensor <= 1",
            "has no effect: tensor is 1",
            "parallel: {{tensor: 2}}, or remove it",
        ),
        warning=True,
    ),
    row(
        "`attention-softmax-in-fp32` without `no-query-key-layer-scaling`",
        "it ignores it",
        "megatron/arguments.py, _add_mixed_precision_args",
        Case(
            "attention_softmax_in_fp32",
            "not no_query_key_layer_scaling",
            "is ignored without no-query-key-layer-scaling",
            "add `no-query-key-layer-scaling: true`, or remove it",
        ),
        warning=True,
    ),
    row(
        "`use-distributed-optimizer` under DeepSpeed",
        "it hands DeepSpeed a plain optimizer: only ZeRO divides its states",
        _OPTIMIZER,
        Case(
            "use_distributed_optimizer",
            "options.zero",
            "is ignored with DeepSpeed, which divides the optimizer by ZeRO",
            "zero: {{stage: 1}} instead",
        ),
        warning=True,
    ),
    row(
        "flags of the loss scale without fp16",
        "DeepSpeed scales no loss",
        "DeepSpeed runtime/engine.py",
        Case(
            "loss_scale|initial_loss_scale|min_loss_scale|loss_scale_window",
            "spec.precision != fp16",
            "only fp16 scales the loss",
            "remove it, or precision: fp16",
        ),
        warning=True,
    ),
    another_optimizer,
    row(
        "`data-path` beside `train-data-path`, `valid-data-path` or `test-data-path`",
        "it reads data-path and ignores the others",
        "megatron/data/gpt_dataset.py",
        Case(
            "train_data_path|valid_data_path|test_data_path",
            "data_path",
            "is ignored beside data-path",
            "remove one of them",
        ),
        warning=True,
    ),
    values_left_open,
    row(
        "`rotary-percent` without `use-rotary-position-embeddings`",
        "the positions are learned ones",
        "megatron/model/language_model.py",
        Case(
            "rotary_percent|rotary_position_embeddings_theta",
            "not use_rotary_position_embeddings",
            "{argument} is not read: the positions are not rotary",
            "add `use-rotary-position-embeddings: true`",
        ),
        warning=True,
    ),
    row(
        "`topk` or `moe-loss-coeff` without `num-experts`",
        "the model has no experts",
        "megatron/model/transformer.py, gpt_model.py",
        Case(
            "topk|moe_loss_coeff|moe_train_capacity_factor|moe_eval_capacity_factor|"
            "moe_min_capacity|moe_token_dropping",
            "not num_experts",
            "{argument} has no effect: the model has no experts",
            "add `num-experts: [8]`",
        ),
        warning=True,
    ),
    row(
        "`kd-temp` or another setting of the teacher without `kd`",
        "no teacher is asked",
        "megatron/training.py, setup_teacher_model",
        Case(
            "kd_alpha_ce|kd_beta_ce|kd_temp|load_teacher|num_layers_teacher|hidden_size_teacher",
            "not kd",
            "{argument} has no effect without kd",
            "add `kd: true`",
        ),
        warning=True,
    ),
)
