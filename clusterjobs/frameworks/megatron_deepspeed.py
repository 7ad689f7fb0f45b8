"""Megatron-DeepSpeed's pretraining scripts: a command line and a ds_config.json from one spec.

The scripts silently clamp the parallel sizes to the world size (megatron/arguments.py,
validate_args): the plan compares them beforehand.
Source of the flags: Megatron-DeepSpeed, megatron/arguments.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import (
    argument_key,
    argument_names,
    arguments_of,
    refuse_arguments,
    script_of,
)
from clusterjobs.frameworks.base import (
    EXIT_MINUTES,
    JOB_DIR,
    ConfigFile,
    Framework,
    LogLine,
    Program,
    Saving,
    Task,
    Variable,
    folder_on_the_node,
)
from clusterjobs.frameworks.ds_config import (
    CONFIG_NAME,
    Zero,
    check_zero,
    config_text,
    derived_config,
    extensions_folder,
)
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import SpecModel


class ActivationCheckpointing(SpecModel):
    """Activations computed again in the backward pass, by DeepSpeed's implementation.

    One checkpoint per `layers` layers; `partition` divides it over the tensor ranks, `cpu` moves
    it to the host's memory.
    """

    layers: Count = 1
    partition: bool = False
    cpu: bool = False


def _switch(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, (dict, ActivationCheckpointing)):
        raise ValueError(
            "expected true, false or a mapping: {layers: 1, partition: true, cpu: false}"
        )
    return value


class Options(SpecModel):
    """`zero`, `activation_checkpointing`, and `ds_config` for the keys that are not derived."""

    zero: Zero = Zero(stage=0)
    activation_checkpointing: Annotated[
        ActivationCheckpointing | None, BeforeValidator(_switch)
    ] = None
    ds_config: dict[str, Any] = Field(default_factory=dict)


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
    # Not by its signal handler: SIGTERM would also end PyTorch's data loaders.
    saving = Saving(
        "clock",
        "--exit-duration-in-mins makes all ranks save and exit in the same iteration",
        "latest_checkpointed_iteration.txt",
    )
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
        script = script_of(task.experiment, diagnostics)
        if task.experiment.model is None:
            example = "{layers: 24, hidden: 1024, heads: 16, sequence: 1024}"
            diagnostics.missing("model", "model is missing", f"add `model: {example}`")
        origins = _origins(task.experiment, diagnostics)
        refuse_arguments(task.experiment, diagnostics, origins)
        _check_save(task.experiment, diagnostics)
        check_zero(options.zero, task.experiment.parallel.pipeline, diagnostics)
        config = config_text(
            task, _config(task, options), options.ds_config, diagnostics, provenance
        )
        if script is None:
            return None
        return Program(
            (script, *_derived_arguments(task, options), *arguments_of(task.experiment)),
            is_python=True,
            files=(ConfigFile(CONFIG_NAME, config),),
            environment=tuple(_environment(task)),
            origins=origins,
        )


def _derived_arguments(task: Task, options: Options) -> tuple[str, ...]:
    return (
        *_model_arguments(task.experiment),
        *_parallel_arguments(task),
        *_checkpoint_arguments(task.experiment),
        *_deepspeed_arguments(options),
    )


def _model_arguments(experiment: Experiment) -> Iterator[str]:
    if model := experiment.model:
        yield from ("--num-layers", str(model.layers), "--hidden-size", str(model.hidden))
        yield from ("--num-attention-heads", str(model.heads))
        yield from ("--seq-length", str(model.sequence))
        yield from ("--max-position-embeddings", str(model.sequence))
    if experiment.precision in ("fp16", "bf16"):
        yield f"--{experiment.precision}"


def _parallel_arguments(task: Task) -> Iterator[str]:
    parallel = task.parallelism
    yield from ("--tensor-model-parallel-size", str(parallel.tensor))
    yield from ("--pipeline-model-parallel-size", str(parallel.pipeline))
    if parallel.pipeline == 1:
        yield "--no-pipeline-parallel"  # else DeepSpeed's pipeline engine runs with one stage
    if samples := task.samples:
        yield from ("--micro-batch-size", str(samples.micro))
        yield from ("--global-batch-size", str(samples.global_))


def _checkpoint_arguments(experiment: Experiment) -> Iterator[str]:
    """Resume from the newest checkpoint in the folder; start anew if there is none."""
    if experiment.checkpoints:
        folder = folder_on_the_node(experiment.checkpoints.path)
        yield from ("--save", folder, "--load", folder)
    if experiment.restarts:
        yield from ("--exit-duration-in-mins", EXIT_MINUTES)


def _deepspeed_arguments(options: Options) -> Iterator[str]:
    yield from ("--deepspeed", "--deepspeed_config", f"{JOB_DIR}/{CONFIG_NAME}")
    yield from ("--zero-stage", str(options.zero.stage))
    if recompute := options.activation_checkpointing:
        yield "--checkpoint-activations"  # for Megatron: which layers
        yield from ("--checkpoint-num-layers", str(recompute.layers))
        yield "--deepspeed-activation-checkpointing"  # for DeepSpeed: use its implementation
        if recompute.partition:
            yield "--partition-activations"
        if recompute.cpu:
            yield "--checkpoint-in-cpu"


def _config(task: Task, options: Options) -> dict[str, Any]:
    config = derived_config(task, options.zero)
    if recompute := options.activation_checkpointing:
        config["activation_checkpointing"] = {
            "partition_activations": recompute.partition,
            "cpu_checkpointing": recompute.cpu,
        }
    return config


def _environment(task: Task) -> Iterator[Variable]:
    yield Variable(
        "LOCAL_SIZE",
        str(task.shape.ranks_per_node),
        "ranks per node, which only deepspeed's launcher sets",
        "Megatron-DeepSpeed",
    )
    yield extensions_folder()
    names = {argument_key(name) for _, name in argument_names(task.experiment)}
    if "sequence_parallel" in names:
        yield Variable(
            "CUDA_DEVICE_MAX_CONNECTIONS",
            "1",
            "--sequence-parallel refuses to start without it",
            "Megatron-DeepSpeed megatron/arguments.py",
        )


# ------------------------------------------------------------------ refused arguments

_DERIVED_FROM: dict[str, tuple[str, ...]] = {
    "num_layers": ("model", "layers"),
    "encoder_num_layers": ("model", "layers"),
    "hidden_size": ("model", "hidden"),
    "num_attention_heads": ("model", "heads"),
    "seq_length": ("model", "sequence"),
    "encoder_seq_length": ("model", "sequence"),
    "max_position_embeddings": ("model", "sequence"),
    "tensor_model_parallel_size": ("parallel", "tensor"),
    "model_parallel_size": ("parallel", "tensor"),
    "pipeline_model_parallel_size": ("parallel", "pipeline"),
    "no_pipeline_parallel": ("parallel", "pipeline"),
    "micro_batch_size": ("batch", "micro"),
    "batch_size": ("batch", "micro"),
    "global_batch_size": ("batch", "global"),
    "fp16": ("precision",),
    "bf16": ("precision",),
    "zero_stage": ("zero", "stage"),
    "checkpoint_activations": ("activation_checkpointing",),
    "checkpoint_num_layers": ("activation_checkpointing", "layers"),
    "deepspeed_activation_checkpointing": ("activation_checkpointing",),
    "partition_activations": ("activation_checkpointing", "partition"),
    "checkpoint_in_cpu": ("activation_checkpointing", "cpu"),
    "deepspeed": ("framework",),
    "deepspeed_config": ("ds_config",),
}
_BY_RESTARTS = {"exit_duration_in_mins": ("restarts",)}
_BY_CHECKPOINTS = {"save": ("checkpoints", "path"), "load": ("checkpoints", "path")}


def _origins(experiment: Experiment, diagnostics: Diagnostics) -> dict[str, str]:
    derived = {
        **_DERIVED_FROM,
        **(_BY_CHECKPOINTS if experiment.checkpoints else {}),
        **(_BY_RESTARTS if experiment.restarts else {}),
    }
    origins = {name: diagnostics.describe_key(path) for name, path in derived.items()}
    return {
        **origins,
        "local_rank": "the launcher, which sets LOCAL_RANK",
        "ds_sequence_parallel_size": "parallel, which has tensor and pipeline only",
    }


def _check_save(experiment: Experiment, diagnostics: Diagnostics) -> None:
    names = {argument_key(name) for _, name in argument_names(experiment)}
    if experiment.checkpoints and "save_interval" not in names:
        diagnostics.problem(
            ("checkpoints",),
            "save-interval is missing: how often a checkpoint is saved",
            "add `save-interval: 1000` (iterations) to args; megatron/arguments.py asserts it",
        )
