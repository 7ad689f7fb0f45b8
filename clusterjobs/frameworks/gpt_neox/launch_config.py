"""The config file that clusterjobs adds to the user's GPT-NeoX configs, and its keys.

A key that the spec does not set is left to the user's files: deepy.py refuses a key that is in two.
Source: GPT-NeoX 2.0, megatron/neox_arguments.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import LogLine, Task
from clusterjobs.frameworks.ds_config import Zero
from clusterjobs.frameworks.gpt_neox.config import Given
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel

LAUNCH_NAME = "clusterjobs_launch.yml"
MASTER_NAME = "clusterjobs_master.yml"  # templates/launch/deepy.sh.j2 writes it in the job

ITERATION = LogLine(
    r"samples/sec: (?P<samples_per_second>[\d.]+) \| iteration +(?P<step>\d+)/ *(?P<steps>\d+) \| "
    r"elapsed time per iteration \(ms\): (?P<milliseconds>[\d.]+) \| .*?"
    r"approx flops per GPU: (?P<tflops_per_gpu>[\d.]+)TFLOPS \| "
    r"(?:.*?lm_loss: (?P<loss>\S+) \|)?",
    " samples/sec: 51.234 | iteration       10/      50 | elapsed time per iteration (ms): 624.6 "
    "| learning rate: 1.234E-04 | approx flops per GPU: 112.3TFLOPS | lm_loss: 7.123456E+00 "
    "| number of skipped iterations:   0 | number of nan iterations:   0 |",
    "GPT-NeoX 2.0, megatron/logging.py; composed from its code, not from a run",
)


class Options(SpecModel):
    """The user's own YAML files, `zero`, and further keys of a config in `neox`."""

    config_dir: field_types.Path | None = None
    configs: Annotated[tuple[field_types.Path, ...], Field(min_length=1)]
    zero: Zero | None = None
    neox: dict[str, Any] = Field(default_factory=dict)


def launch_config(task: Task, options: Options) -> dict[str, Any]:
    """The launch file: how the ranks are started, the spec's values, and `neox`."""
    own = {key.replace("-", "_"): value for key, value in options.neox.items()}
    return {**_launch(task), **_of_the_spec(task, options), **own}


def _launch(task: Task) -> dict[str, Any]:
    """How DeepSpeed starts the ranks."""
    if task.experiment.software.container:  # there is no srun inside
        return {"launcher": "pdsh", "no_ssh_check": True}
    launch: dict[str, Any] = {"launcher": "slurm", "deepspeed_slurm": True, "no_ssh_check": True}
    if task.shape.nodes == 1:
        launch["force_multi"] = True  # else DeepSpeed starts every rank as rank 0 (issue 849)
    return launch


def _of_the_spec(task: Task, options: Options) -> dict[str, Any]:
    """The keys that the spec sets; the user's files set the others."""
    found = dict[str, Any]()
    if (samples := task.samples) and task.experiment.batch:
        found["train_batch_size"] = samples.global_
        found["train_micro_batch_size_per_gpu"] = samples.micro
        found["gradient_accumulation_steps"] = samples.accumulation
    return {**found, **_beside_the_batch(task.experiment, options)}


def _beside_the_batch(experiment: Experiment, options: Options) -> dict[str, Any]:
    found = dict[str, Any]()
    if "parallel" in experiment.model_fields_set:
        pipeline = experiment.parallel.pipeline
        found["pipe_parallel_size"] = pipeline if pipeline > 1 else 0  # 0: no pipeline module
        found["model_parallel_size"] = experiment.parallel.tensor
    if model := experiment.model:
        found["num_layers"], found["hidden_size"] = model.layers, model.hidden
        found["num_attention_heads"] = model.heads
        found["seq_length"] = found["max_position_embeddings"] = model.sequence
    found.update(_PRECISION.get(experiment.precision or "", {}))
    if options.zero:
        found["zero_optimization"] = {"stage": options.zero.stage}
    if experiment.checkpoints:
        found["save"] = found["load"] = experiment.checkpoints.path
    return found


def values_of_the_spec(experiment: Experiment, options: Options) -> dict[str, Any]:
    """The keys that the spec sets, except the batch, and those of `neox`."""
    own = {key.replace("-", "_"): value for key, value in options.neox.items()}
    return {**_beside_the_batch(experiment, options), **own}


def keys_of_the_spec(
    experiment: Experiment, options: Options, diagnostics: Diagnostics
) -> dict[str, Given]:
    """The keys that the spec sets, except the batch, and those of `neox`."""
    derived = {
        key: Given(value, diagnostics.where(ORIGINS[key]), ORIGINS[key])
        for key, value in _beside_the_batch(experiment, options).items()
    }
    own = {
        key.replace("-", "_"): Given(value, diagnostics.where(("neox", key)), ("neox", key))
        for key, value in options.neox.items()
    }
    return {**derived, **own}


_PRECISION: dict[str, dict[str, Any]] = {
    "fp32": {"precision": "fp32"},
    "fp16": {"precision": "fp16", "fp16": {"enabled": True}},
    "bf16": {"precision": "bfloat16", "bf16": {"enabled": True}},
}

OURS = ("launcher", "deepspeed_slurm", "no_ssh_check", "force_multi")
ORIGINS: dict[str, tuple[str, ...]] = {
    "train_batch_size": ("batch",),
    "train_micro_batch_size_per_gpu": ("batch",),
    "gradient_accumulation_steps": ("batch",),
    "pipe_parallel_size": ("parallel",),
    "model_parallel_size": ("parallel",),
    "num_layers": ("model",),
    "hidden_size": ("model",),
    "num_attention_heads": ("model",),
    "seq_length": ("model",),
    "max_position_embeddings": ("model",),
    "precision": ("precision",),
    "fp16": ("precision",),
    "bf16": ("precision",),
    "zero_optimization": ("zero",),
    "save": ("checkpoints",),
    "load": ("checkpoints",),
}


def written(experiment: Experiment, options: Options, diagnostics: Diagnostics) -> dict[str, str]:
    """The keys of the launch file, each with the key of the spec that sets it."""
    given = {*experiment.model_fields_set, *options.model_fields_set}
    spec = {
        key: diagnostics.describe_key(path) for key, path in ORIGINS.items() if path[0] in given
    }
    own = {key.replace("-", "_"): diagnostics.describe_key(("neox", key)) for key in options.neox}
    return {**own, **spec, **dict.fromkeys(OURS, "framework: gpt-neox")}
