"""Megatron-LM's pretraining scripts: a command line that its argument parser accepts.

Source of the flags: NVIDIA/Megatron-LM, megatron/training/arguments.py.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import (
    argument_key,
    argument_names,
    arguments_by_key,
    arguments_of,
    refuse_arguments,
    script_of,
)
from clusterjobs.frameworks.base import (
    DataPath,
    Division,
    Foreseen,
    Framework,
    LogLine,
    Program,
    Task,
)
from clusterjobs.frameworks.flags import check_arguments, table
from clusterjobs.frameworks.megatron import rules as common_rules
from clusterjobs.frameworks.megatron.command_line import DERIVED_FROM as COMMON_ORIGINS
from clusterjobs.frameworks.megatron.command_line import (
    LENGTH_ARGUMENTS,
    SAVING,
    all_arguments,
    origins_of,
    size_hints,
)
from clusterjobs.frameworks.megatron.foreseen import (
    VOCAB_MULTIPLE,
    Flags,
    data_paths_of,
    expert_fields,
    layout_fields,
    shape_fields,
)
from clusterjobs.frameworks.megatron_lm.command_line import (
    DERIVED_FROM,
    MODEL_FLAGS,
    derived_arguments,
    environment,
)
from clusterjobs.frameworks.megatron_lm.parallel_rules import EXPERT_RULES, PARALLEL_RULES
from clusterjobs.frameworks.megatron_lm.run_rules import MEMORY_RULES, RUN_RULES
from clusterjobs.frameworks.rules import GivenArguments, Rule, check_rules
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel

# ------------------------------------------------------------------ foreseen
# What Megatron-LM's arguments say about memory and speed, beside those of both Megatrons.
# Source of the flags: megatron/training/arguments.py.


_UNPADDED = ("no_pad_vocab_size", "disable_pad_vocab_size", "padded_vocab_size")
_FULLY_SHARDED = ("use_custom_fsdp", "use_megatron_fsdp")


_BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0}


def _precision_aware(flags: Flags) -> dict[str, Any]:
    """Gradients, main weights and moments of other types than fp32.

    Source: Megatron-LM arguments.py, --use-precision-aware-optimizer and the types behind it.
    """
    if not flags.has("use_precision_aware_optimizer"):
        return {}
    names = ("main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")
    found = {"optimizer_bytes": sum(_BYTES.get(flags.text(name), 4.0) for name in names)}
    if flags.text("main_grads_dtype") == "bf16":
        found["gradient_bytes"] = 2.0
    return found


_ITERATION = LogLine(  # the last rank writes it; the throughput only with --log-throughput
    r"iteration +(?P<step>\d+)/ *(?P<steps>\d+) \| consumed samples: +(?P<samples>\d+) \| .*?"
    r"elapsed time per iteration \(ms\): (?P<milliseconds>[\d.]+) \| "
    r"(?:throughput per GPU \(TFLOP/s/GPU\): (?P<tflops_per_gpu>[\d.]+) \| )?.*?"
    r"global batch size: +(?P<global_batch>\d+) \| lm loss: (?P<loss>\S+) \| .*?"
    r"grad norm: (?P<gradient_norm>[\d.]+) \| .*?number of skipped iterations",
    " [2026-11-22 18:48:17.123456] iteration       50/    5000 | consumed samples:        51200 | "
    " elapsed time per iteration (ms): 1674.3 | throughput per GPU (TFLOP/s/GPU): 412.6 | "
    "learning rate: 1.500000E-04 | global batch size:  1024 | lm loss: 6.681113E+00 | "
    "loss scale: 1.0 | grad norm: 1.214 | number of skipped iterations:   0 | "
    "number of nan iterations:   0 |",
    "Megatron-LM megatron/training/training.py, training_log",
)
RULES: tuple[Rule[GivenArguments], ...] = (
    *PARALLEL_RULES,
    *EXPERT_RULES,
    *MEMORY_RULES,
    *RUN_RULES,
    *common_rules.RULES,
)
# Not num_layers_per_virtual_pipeline_stage, which counts something else than its key.
_SIZES = {one: key for one, key in DERIVED_FROM.items() if not one.startswith("num_layers")}
_MODELS_OF_THEIR_OWN = ("use_checkpoint_args", "yaml_cfg")


class MegatronLm(Framework):
    """`framework: megatron-lm`."""

    name = "megatron-lm"
    saving = SAVING
    launchers = ("torchrun", "srun")
    parallel_keys = ("tensor", "pipeline", "virtual_pipeline", "context", "expert", "sequence")
    log_lines = (_ITERATION,)
    reads_precision = True
    packages = ("torch",)  # not megatron-core, which a checkout of Megatron-LM brings
    argument_check = "check_megatron_lm"
    length_arguments = LENGTH_ARGUMENTS

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        spec = task.spec
        script = script_of(spec, diagnostics, takes_module=False)
        _check_sizes(spec, diagnostics)
        origins = origins_of(spec, DERIVED_FROM, diagnostics)
        hints = size_hints(spec, {**COMMON_ORIGINS, **_SIZES})
        refuse_arguments(spec, diagnostics, origins, hints)
        check_arguments(spec, diagnostics, table(self.name, spec), origins)
        given = GivenArguments(task, all_arguments(spec, MODEL_FLAGS))
        check_rules(RULES, given, diagnostics)
        if script is None:
            return None
        return Program(
            (script, *derived_arguments(task), *arguments_of(spec)),
            is_python=True,
            environment=tuple(environment(task)),
            origins={
                "max_position_embeddings": diagnostics.describe_key(("model", "sequence")),
                **origins,
            },
        )

    def half_precisions(self, spec: Experiment, options: SpecModel | None) -> tuple[str, ...]:
        return () if "yaml_cfg" in arguments_by_key(spec) else ("bf16", "fp16")

    def division(self, spec: Experiment) -> Division:
        """The stages of the pipeline are checked by a rule: Megatron-LM asserts equal ones."""
        return Division("kv_channels" in arguments_by_key(spec), None)

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        """Transformer Engine is the default, and has flash attention."""
        flags = Flags(spec)
        model = shape_fields(spec, "num_query_groups")
        hidden = spec.model.hidden if spec.model else None
        model |= expert_fields(flags, 4 * hidden if hidden else None)
        layout = {"engine": "megatron-core", **layout_fields(spec)}
        is_local = flags.text("transformer_impl") == "local"
        layout["flash"] = not is_local or flags.has("use_flash_attn")
        if flags.text("attention_backend") == "unfused":
            layout["flash"] = False
        if flags.has("use_torch_fsdp2"):
            layout |= {"engine": "fsdp", "zero": 3}
        elif any(flags.has(name) for name in _FULLY_SHARDED):
            stages = {"optim": 1, "optim_grads": 2, "optim_grads_params": 3}
            layout["zero"] = stages.get(flags.text("data_parallel_sharding_strategy"), 0)
        elif flags.has("use_distributed_optimizer"):
            layout["zero"] = 1
        if flags.has("grad_reduce_in_bf16"):
            layout["gradient_bytes"] = 2.0
        layout |= _precision_aware(flags)
        if flags.has("fp8_format"):
            layout["precision"] = "fp8"
        if tensor := flags.count("expert_tensor_parallel_size"):
            layout["expert_tensor"] = tensor
        is_padded = not any(flags.has(name) for name in _UNPADDED)
        multiple = flags.count("make_vocab_size_divisible_by") or VOCAB_MULTIPLE
        return Foreseen(model, layout, multiple if is_padded else None)

    def data_paths(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Iterable[DataPath]:
        return data_paths_of(spec)


def _check_sizes(spec: Experiment, diagnostics: Diagnostics) -> None:
    names = {argument_key(name) for _, name in argument_names(spec)}
    if spec.model is None and not names & set(_MODELS_OF_THEIR_OWN):
        example = "{layers: 24, hidden: 1024, heads: 16, sequence: 1024}"
        diagnostics.missing("model", "model is missing", f"add `model: {example}`")
    if spec.batch is None:
        what = "batch is missing: Megatron-LM asserts a micro batch size"
        diagnostics.missing("batch", what, "add `batch: {micro: 8, global: 128}`")
