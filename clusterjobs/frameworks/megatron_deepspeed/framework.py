"""Megatron-DeepSpeed's pretraining scripts: a command line and a ds_config.json from one spec.

The scripts silently clamp the parallel sizes to the world size (megatron/arguments.py,
validate_args): the plan compares them beforehand.
Source of the flags: Megatron-DeepSpeed, megatron/arguments.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import (
    arguments_by_key,
    arguments_of,
    refuse_arguments,
    script_of,
)
from clusterjobs.frameworks.base import (
    JOB_DIR,
    ConfigFile,
    DataPath,
    Division,
    Foreseen,
    Framework,
    LogLine,
    Program,
    Task,
    Variable,
)
from clusterjobs.frameworks.ds_config import (
    CONFIG_NAME,
    DS_CONFIG,
    LATEST,
    ZERO,
    Further,
    Zero,
    check_zero,
    config_text,
    derived_config,
    extensions_folder,
)
from clusterjobs.frameworks.ds_config_rules import DsConfig
from clusterjobs.frameworks.flags import check_arguments, table
from clusterjobs.frameworks.megatron import rules as common_rules
from clusterjobs.frameworks.megatron.command_line import (
    DERIVED_FROM,
    LENGTH_ARGUMENTS,
    SAVING,
    TRACKER,
    ModelFlags,
    all_arguments,
    batch_arguments,
    checkpoint_arguments,
    model_arguments,
    origins_of,
    parallel_arguments,
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
from clusterjobs.frameworks.megatron_deepspeed.agreement import agree
from clusterjobs.frameworks.megatron_deepspeed.rules import MODEL_RULES, SILENT_RULES, Given
from clusterjobs.frameworks.rules import Rule, check_rules
from clusterjobs.frameworks.torch_foreseen import offload_of
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import Count, Flag
from clusterjobs.spec.model import FLAG, Also, Key, SpecModel, TopLevelKeys
from clusterjobs.text import Value, joined
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ command line
# The flags, keys of ds_config.json and variables that a spec's keys become.


class ActivationCheckpointing(SpecModel):
    """Activations computed again in the backward pass, by DeepSpeed's implementation."""

    layers: Annotated[Count, Key("one checkpoint for so many layers", "2")] = 1
    partition: Annotated[Flag, Key("divide it over the tensor ranks", "true")] = False
    cpu: Annotated[Flag, Key("move it to the host's memory", "true")] = False


def _switch(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, (dict, ActivationCheckpointing)):
        raise ValueError(
            "expected true, false or a mapping: {layers: 1, partition: true, cpu: false}"
        )
    return value


class Options(TopLevelKeys):
    """`zero`, `activation_checkpointing`, and `ds_config` for the keys that are not derived."""

    # None: Megatron's own optimizer and engine
    zero: Annotated[
        Zero | None,
        BeforeValidator(lambda value: None if value is False else value),
        Also(FLAG),
        ZERO,
    ] = Zero(stage=0)
    activation_checkpointing: Annotated[
        ActivationCheckpointing | None,
        BeforeValidator(_switch),
        Also(FLAG),
        Key(
            "compute activations again in the backward pass: `true`, or the keys below",
            "true",
            schedules=False,
            default_is="`false`",
        ),
    ] = None
    ds_config: Annotated[dict[str, Any], DS_CONFIG] = Field(default_factory=dict)


def stage_of(options: Options) -> int:
    """ZeRO's stage; without DeepSpeed, the ranks divide as little as at stage 0."""
    return options.zero.stage if options.zero else 0


def derived_arguments(task: Task, options: Options) -> tuple[Value, ...]:
    """The flags that follow from the spec's other keys."""
    kind = arguments_by_key(task.spec).get("position_embedding_type")
    has_positions = kind is None or kind.values != ("rotary",)  # BigScience's fork asserts it
    no_pipeline = task.parallelism.pipeline == 1  # else the pipeline engine runs with one stage
    return (
        *model_arguments(task.spec, has_positions, _MODEL_FLAGS),
        *parallel_arguments(task),
        *(["--no-pipeline-parallel"] if no_pipeline else []),
        *batch_arguments(task),
        *checkpoint_arguments(task.spec),
        *_deepspeed_arguments(options),
    )


_MODEL_FLAGS = ModelFlags(("num-key-value-heads",), "topk")


def _deepspeed_arguments(options: Options) -> Iterator[Value]:
    if options.zero:
        yield from ("--deepspeed", "--deepspeed_config", joined(JOB_DIR, "/", CONFIG_NAME))
        yield from ("--zero-stage", str(options.zero.stage))
    if recompute := options.activation_checkpointing:
        yield "--checkpoint-activations"  # for Megatron: which layers
        yield from ("--checkpoint-num-layers", str(recompute.layers))
        if options.zero:
            yield "--deepspeed-activation-checkpointing"  # use DeepSpeed's implementation
        if recompute.partition:
            yield "--partition-activations"
        if recompute.cpu:
            yield "--checkpoint-in-cpu"


def own_config(task: Task, options: Options) -> dict[str, Any]:
    """The keys of ds_config.json that follow from them."""
    config = derived_config(task, options.zero)
    if recompute := options.activation_checkpointing:
        config["activation_checkpointing"] = {
            "partition_activations": recompute.partition,
            "cpu_checkpointing": recompute.cpu,
        }
    return config


def environment(task: Task) -> Iterator[Variable]:
    """What no launcher sets."""
    yield Variable(
        "LOCAL_SIZE",
        str(task.shape.ranks_per_node),
        "ranks per node, which only deepspeed's launcher sets",
        "Megatron-DeepSpeed",
    )
    yield extensions_folder()
    if "sequence_parallel" in arguments_by_key(task.spec):
        yield Variable(
            "CUDA_DEVICE_MAX_CONNECTIONS",
            "1",
            "--sequence-parallel refuses to start without it",
            "Megatron-DeepSpeed megatron/arguments.py",
        )


# ------------------------------------------------------------------ foreseen
# What Megatron-DeepSpeed's arguments and options say about memory and speed.
# Source of the flags: megatron/arguments.py of Megatron-DeepSpeed.


_FLASH = ("use_flash_attn", "use_flash_attn_v1", "use_flash_attn_v2", "use_flash_attn_triton")


_ITERATION = LogLine(  # the rank that holds the pipeline's last stage writes it
    r"iteration +(?P<step>\d+)/ *(?P<steps>\d+) \| consumed samples: +(?P<samples>\d+) \| .*?"
    r"elapsed time per iteration \(ms\): (?P<milliseconds>[\d.]+) \| .*?"
    r"global batch size: +(?P<global_batch>\d+) \| lm loss: (?P<loss>\S+) \| .*?"
    r"samples per second: (?P<samples_per_second>[\d.]+) \| .*?"
    r"TFLOPs: (?P<tflops_per_gpu>[\d.]+)",
    " iteration        2/      10 | consumed samples:            8 | consumed tokens:          256 "
    "| elapsed time per iteration (ms): 79.3 | learning rate: 1.000E-03 | global batch size:     4 "
    "| lm loss: 5.658854E+00 | actual seqlen:    32 | number of skipped iterations:   0 "
    "| number of nan iterations:   0 | samples per second: 50.451 "
    "| tokens per gpu per second (tgs): 807.218 | TFLOPs: 0.00 |",
    "Megatron-DeepSpeed megatron/training.py",
)


class MegatronDeepSpeed(Framework):
    """`framework: megatron-deepspeed`."""

    name = "megatron-deepspeed"
    argument_check = "check_megatron_deepspeed"
    length_arguments = LENGTH_ARGUMENTS
    saving = SAVING._replace(overwritten=((TRACKER, r"global_step(\d+)"), LATEST))
    launchers = ("srun", "torchrun", "deepspeed", "deepspeed-pdsh")
    options = Options
    log_lines = (_ITERATION,)
    reads_precision = True
    packages = ("torch", "deepspeed")
    # Of megatron/utils.py. amp_C is missing if apex was built without --cuda_ext, and cannot be
    # imported after an update of torch. amp_C needs the libraries that torch has loaded.
    imports = ("torch", "apex.multi_tensor_apply", "amp_C")
    compiles_extensions = True
    helpers = "megatron/data"  # compile_helper of megatron/data/dataset_utils.py

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.spec, diagnostics, takes_module=False)
        if task.spec.model is None:
            example = "{layers: 24, hidden: 1024, heads: 16, sequence: 1024}"
            diagnostics.missing("model", "model is missing", f"add `model: {example}`")
        origins = {
            **origins_of(task.spec, _DERIVED_FROM, diagnostics),
            "ds_sequence_parallel_size": "parallel, which has tensor and pipeline only",
        }
        _check_arguments(task, options, origins, diagnostics)
        ours = derived_arguments(task, options)
        files: tuple[ConfigFile, ...] = ()
        if options.zero:
            agreed = agree(task.spec, options.ds_config, diagnostics, provenance)
            derived = {**own_config(task, options), **agreed.config}
            own = options.ds_config
            further = Further(keeps_auto=True)  # SILENT_RULES warn of it
            config = config_text(task, derived, own, diagnostics, provenance, further)
            ours, files = (*ours, *agreed.arguments), (ConfigFile(CONFIG_NAME, config),)
        elif options.ds_config:
            what = "zero: false starts Megatron without DeepSpeed, which would read this"
            diagnostics.problem(("ds_config",), what, "remove it, or write zero: {stage: 0}")
        if script is None:
            return None
        return Program(
            (script, *ours, *arguments_of(task.spec)),
            is_python=True,
            files=files,
            environment=tuple(environment(task)),
            # `args` may have the first two as well; derived, they come from these keys
            origins={
                "max_position_embeddings": diagnostics.describe_key(("model", "sequence")),
                "clip_grad": diagnostics.describe_key(("ds_config", "gradient_clipping")),
                **origins,
            },
        )

    def half_precisions(self, spec: Experiment, options: SpecModel | None) -> tuple[str, ...]:
        return ("bf16", "fp16")

    def division(self, spec: Experiment) -> Division:
        flags = arguments_by_key(spec)
        found = flags.get("pp_partition_method")
        method = " ".join(found.texts) if found else "type:transformer"
        beside = {"type:transformer": 0, "type:transformer|embedding": 2}.get(method)
        return Division("kv_channels" in flags, beside)

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        """Attention is not fused unless a flag says so."""
        assert isinstance(options, Options)
        flags = Flags(spec)
        model = shape_fields(spec, "num_key_value_heads")
        hidden = spec.model.hidden if spec.model else None
        model |= expert_fields(flags, 4 * hidden if hidden else None)
        layout = {
            "engine": "megatron-deepspeed" if options.zero else "megatron-2020",
            **layout_fields(spec),
            "zero": stage_of(options),
            "flash": any(flags.has(name) for name in _FLASH),
            "sequence_parallel": flags.has("sequence_parallel"),
            "offload": offload_of(options.ds_config),
        }
        if options.activation_checkpointing:
            layout["recompute"] = "full"
        multiple = flags.count("make_vocab_size_divisible_by") or VOCAB_MULTIPLE
        return Foreseen(model, layout, multiple)

    def data_paths(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Iterator[DataPath]:
        return data_paths_of(spec)


def _check_arguments(
    task: Task, options: Options, derived: Mapping[str, str], diagnostics: Diagnostics
) -> None:
    spec = task.spec
    refuse_arguments(spec, diagnostics, derived, size_hints(spec, DERIVED_FROM))
    check_arguments(spec, diagnostics, table("megatron-deepspeed", spec), derived)
    check_zero(options.zero, spec.parallel.pipeline, diagnostics)
    config = DsConfig(options.ds_config, stage_of(options), spec.precision)
    given = Given(task, all_arguments(spec, _MODEL_FLAGS), config)
    check_rules(RULES, given, diagnostics)


RULES: tuple[Rule[Given], ...] = (
    *common_rules.RULES,
    *MODEL_RULES,
    *SILENT_RULES,
)


# ------------------------------------------------------------------ refused arguments

_DERIVED_FROM: dict[str, Path] = {
    "no_pipeline_parallel": ("parallel", "pipeline"),
    "zero_stage": ("zero", "stage"),
    "checkpoint_activations": ("activation_checkpointing",),
    "checkpoint_num_layers": ("activation_checkpointing", "layers"),
    "deepspeed_activation_checkpointing": ("activation_checkpointing",),
    "partition_activations": ("activation_checkpointing", "partition"),
    "checkpoint_in_cpu": ("activation_checkpointing", "cpu"),
    "deepspeed": ("framework",),
    "deepspeed_config": ("ds_config",),
}
