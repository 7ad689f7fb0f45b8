"""Rules about Megatron-LM's data, checkpoints, variables, end and memory.

Source: NVIDIA/Megatron-LM, megatron/training/arguments.py (validate_args), where none is named.
core: megatron/core, which is the package megatron-core.
"""

from collections.abc import Iterator

from clusterjobs.frameworks.megatron_lm.command_line import FSDP, NAME, needs_one_connection
from clusterjobs.frameworks.rules import Case, Finding, Rule, row, rule
from clusterjobs.frameworks.rules import GivenArguments as Given
from clusterjobs.spec.keys.environment import text_of
from clusterjobs.text import show

_VALIDATE = "arguments.py, validate_args"
_CONFIG = "core/transformer/transformer_config.py"
_SPLITS = ("train_data_path", "valid_data_path", "test_data_path")


@rule(
    "another CUDA_DEVICE_MAX_CONNECTIONS than 1 with tensor or context ranks before Blackwell, or "
    "1 with FSDP",
    "it asserts the other value",
    _VALIDATE,
)
def connections(given: Given) -> Iterator[Finding]:
    value = show(text_of(given.task.spec.env.get(NAME, "")))
    if not value.isdecimal():
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


RUN_RULES: tuple[Rule[Given], ...] = (
    connections,
    ucc,
    row(
        "`deterministic-mode` without NCCL_ALGO, or with `use-flash-attn`",
        "it asserts the variable, and no flash attention",
        _VALIDATE,
        Case(
            "deterministic_mode",
            "not env.NCCL_ALGO",
            "needs NCCL_ALGO: otherwise NCCL chooses an algorithm, and their sums differ",
            "add env: {{NCCL_ALGO: Ring}}",
        ),
        Case(
            "use_flash_attn|cross_entropy_loss_fusion",
            "deterministic_mode",
            "is not deterministic",
            "remove it, or deterministic-mode",
        ),
    ),
    one_source_of_data,
    row(
        "`NullTokenizer` without `vocab-size`",
        "it fails when it pads the vocabulary",
        "tokenizer",
        Case(
            "tokenizer_type",
            "it == NullTokenizer, not vocab_size",
            "NullTokenizer needs vocab-size",
            "add `vocab-size: 50257` to args",
        ),
    ),
    retained_checkpoints,
    row(
        "`finetune`, `no-load-optim` or `ckpt-step` with `restarts`",
        "each attempt starts from iteration 0, with new optimizer states, or from the same step",
        "checkpointing.py, load_checkpoint",
        Case(
            "finetune|no_load_optim|ckpt_step",
            "spec.restarts",
            "applies to every attempt, also to those that resume",
            "use pretrained-checkpoint in args: only the first attempt reads it",
        ),
        warning=True,
    ),
    row(
        "`exit-signal-handler` with torchrun",
        "torchrun sends SIGKILL 30 s after SIGTERM, perhaps while the checkpoint is written",
        "torch/distributed/elastic/multiprocessing/api.py",
        Case(
            "exit_signal_handler",
            "not spec.launcher or spec.launcher == torchrun",
            "torchrun kills the ranks 30 s after SIGTERM",
            "launcher: srun",
        ),
        warning=True,
    ),
    row(
        "`warmup` or `checkpoint-activations`",
        "it stops, and names the new flag",
        _VALIDATE,
        Case("warmup", "", "Megatron-LM has removed it", "write lr-warmup-fraction"),
        Case(
            "checkpoint_activations",
            "",
            "Megatron-LM has removed it",
            "write recompute-activations",
        ),
    ),
)


# ------------------------------------------------------------------ memory


MEMORY_RULES: tuple[Rule[Given], ...] = (
    row(
        "`overlap-param-gather` without `overlap-grad-reduce` and a distributed optimizer",
        "it asserts both",
        _VALIDATE,
        Case(
            "overlap_param_gather",
            "not use_distributed_optimizer, not use_megatron_fsdp",
            "needs use-distributed-optimizer",
            "add `use-distributed-optimizer: true`, or remove it",
        ),
        Case(
            "overlap_param_gather",
            "use_distributed_optimizer or use_megatron_fsdp, not overlap_grad_reduce",
            "needs overlap-grad-reduce",
            "add `overlap-grad-reduce: true`, or remove it",
        ),
    ),
    row(
        "`use-torch-fsdp2` with a pipeline, expert ranks, fp16 or a distributed optimizer, or "
        "without `no-gradient-accumulation-fusion` and `untie-embeddings-and-output-weights`",
        "it asserts these",
        _VALIDATE,
        Case(
            ("parallel", "pipeline"),
            "use_torch_fsdp2, parallel.pipeline > 1",
            "use-torch-fsdp2 does not work with pipeline: {parallel.pipeline}",
            "remove it, or use-torch-fsdp2",
        ),
        Case(
            ("parallel", "expert"),
            "use_torch_fsdp2, parallel.expert > 1",
            "use-torch-fsdp2 does not work with expert: {parallel.expert}",
            "remove it, or use-torch-fsdp2",
        ),
        Case(
            ("precision",),
            "use_torch_fsdp2, spec.precision == fp16",
            "use-torch-fsdp2 does not work with fp16",
            "precision: bf16",
        ),
        Case(
            "use_distributed_optimizer",
            "use_torch_fsdp2",
            "FSDP divides the optimizer already",
            "remove it",
        ),
        Case(
            "use_torch_fsdp2",
            "not no_gradient_accumulation_fusion",
            "needs no-gradient-accumulation-fusion",
            "add `no-gradient-accumulation-fusion: true` to args",
        ),
        Case(
            "use_torch_fsdp2",
            "not untie_embeddings_and_output_weights",
            "needs untie-embeddings-and-output-weights",
            "add `untie-embeddings-and-output-weights: true` to args",
        ),
    ),
    row(
        "`ckpt-format` torch_dcp or fsdp_dtensor without its FSDP, or `use-megatron-fsdp` without "
        "fsdp_dtensor",
        "it asserts them together",
        _VALIDATE,
        Case(
            "ckpt_format",
            "it == torch_dcp, not use_torch_fsdp2",
            "torch_dcp needs use-torch-fsdp2",
            "ckpt-format: torch_dist",
        ),
        Case(
            "ckpt_format",
            "it == fsdp_dtensor, not use_megatron_fsdp",
            "fsdp_dtensor needs use-megatron-fsdp",
            "ckpt-format: torch_dist",
        ),
        Case(
            "use_megatron_fsdp",
            "ckpt_format != fsdp_dtensor, ckpt_format != torch_dcp or use_torch_fsdp2",
            "Megatron's FSDP saves in the format fsdp_dtensor alone",
            "add `ckpt-format: fsdp_dtensor`",
        ),
    ),
    row(
        "full recomputation without `recompute-method` and `recompute-num-layers`",
        "it raises ValueError",
        _CONFIG,
        Case(
            "recompute_granularity",
            "it == full, not recompute_activations, not recompute_method",
            "full recomputation needs recompute-method",
            "add `recompute-method: uniform`",
        ),
        Case(
            "recompute_granularity",
            "it == full, not recompute_activations, not recompute_num_layers",
            "full recomputation needs recompute-num-layers",
            "add `recompute-num-layers: 1`",
        ),
    ),
    row(
        "`recompute-num-layers` with selective recomputation, or `distribute-saved-activations` "
        "with `sequence`",
        "it raises ValueError",
        _CONFIG,
        Case(
            "recompute_num_layers",
            "recompute_activations or recompute_granularity == selective",
            "selective recomputation counts no layers",
            "remove it",
        ),
        Case(
            "distribute_saved_activations",
            "parallel.sequence",
            "sequence parallelism divides them already",
            "remove it",
        ),
    ),
    row(
        "`cpu-offloading-num-layers` with a pipeline, recomputation or as many layers as the model "
        "has",
        "it raises ValueError",
        _CONFIG,
        Case(
            "cpu_offloading_num_layers",
            "it > 0, parallel.pipeline > 1",
            "does not work with a pipeline",
            "remove one of them",
        ),
        Case(
            "cpu_offloading_num_layers",
            "it > 0, parallel.pipeline <= 1, recompute_granularity or recompute_activations",
            "does not work with recomputation",
            "remove one of them",
        ),
        Case(
            "cpu_offloading_num_layers",
            "it >= model.layers, parallel.pipeline <= 1, not recompute_granularity, "
            "not recompute_activations",
            "the model has {model.layers} layers",
            "fewer layers",
        ),
    ),
    row(
        "`optimizer-cpu-offload` without `use-precision-aware-optimizer`",
        "it asserts both",
        _VALIDATE,
        Case(
            "optimizer_cpu_offload",
            "not use_precision_aware_optimizer",
            "needs use-precision-aware-optimizer",
            "add `use-precision-aware-optimizer: true`",
        ),
    ),
    row(
        "`use-precision-aware-optimizer` without `use-distributed-optimizer`",
        "it asserts both",
        "core/optimizer/optimizer_config.py",
        Case(
            "use_precision_aware_optimizer",
            "not use_distributed_optimizer",
            "needs use-distributed-optimizer",
            "add `use-distributed-optimizer: true`",
        ),
    ),
    row(
        "fp8 and fp4 together, or `fp8-param-gather` without fp8 and without a divided optimizer",
        "it raises ValueError, or asserts",
        f"{_VALIDATE}; {_CONFIG}",
        Case("fp4_format", "fp8_format", "fp8-format is given as well", "remove one of them"),
        Case("fp8_param_gather", "not fp8_format", "needs fp8-format", "add `fp8-format: hybrid`"),
        Case(
            "fp8_param_gather",
            "fp8_format, not use_torch_fsdp2, not use_megatron_fsdp, not use_distributed_optimizer",
            "needs use-distributed-optimizer",
            "add `use-distributed-optimizer: true`",
        ),
    ),
    row(
        "`rotary-base`, `rotary-percent` or the like without `position-embedding-type: rope`",
        "the positions are learned ones, or there are none",
        "core/models/gpt/gpt_model.py",
        Case(
            "rotary_base|rotary_percent|rotary_interleaved|rotary_seq_len_interpolation_factor|"
            "use_rope_scaling|rope_scaling_factor",
            "not use_rotary_position_embeddings, not multi_latent_attention, "
            "not position_embedding_type or position_embedding_type == learned_absolute|none",
            "{argument} is not read: the positions are not rotary",
            "add `position-embedding-type: rope`",
        ),
        warning=True,
    ),
    row(
        "`moe-shared-expert-overlap` without `moe-shared-expert-intermediate-size`, or "
        "`mtp-loss-scaling-factor` without `mtp-num-layers`",
        "there is no shared expert, or no layer that predicts further tokens",
        f"{_CONFIG}, multi_token_prediction.py",
        Case(
            "moe_shared_expert_overlap",
            "not moe_shared_expert_intermediate_size",
            "has no effect: the model has no shared expert",
            "add `moe-shared-expert-intermediate-size: 1024`",
        ),
        Case(
            "mtp_loss_scaling_factor",
            "not mtp_num_layers",
            "has no effect: no further tokens are predicted",
            "add `mtp-num-layers: 1`",
        ),
        warning=True,
    ),
    row(
        "`recompute-modules` without selective recomputation",
        "nothing is recomputed, or all of the layer",
        _CONFIG,
        Case(
            "recompute_modules",
            "recompute_granularity != selective, not recompute_activations",
            "is not read without selective recomputation",
            "add `recompute-granularity: selective`",
        ),
        warning=True,
    ),
)
