"""Megatron-DeepSpeed's flags, keys of ds_config.json and variables that a spec's keys become.

Must not know what may be wrong with them. Source of the flags: megatron/arguments.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusterjobs.frameworks.arguments import argument_key, argument_names, given_arguments
from clusterjobs.frameworks.base import (
    EXIT_MINUTES,
    JOB_DIR,
    Task,
    Variable,
    folder_on_the_node,
)
from clusterjobs.frameworks.ds_config import CONFIG_NAME, derived_config, extensions_folder
from clusterjobs.frameworks.megatron_deepspeed.options import Options
from clusterjobs.spec.experiment import Experiment


def derived_arguments(task: Task, options: Options) -> tuple[str, ...]:
    """The flags that follow from the spec's other keys."""
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
        if _has_positions(experiment):
            yield from ("--max-position-embeddings", str(model.sequence))
    if experiment.precision in ("fp16", "bf16"):
        yield f"--{experiment.precision}"


def _has_positions(experiment: Experiment) -> bool:
    """Unless `args` say how many, or none; BigScience's fork asserts that rotary has none."""
    flags = {one.key: one.values for one in given_arguments(experiment)}
    names = {argument_key(name) for _, name in argument_names(experiment)}
    is_rotary = flags.get("position_embedding_type") == ("rotary",)
    return not is_rotary and "max_position_embeddings" not in names


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
    if "sequence_parallel" in {one.key for one in given_arguments(task.experiment)}:
        yield Variable(
            "CUDA_DEVICE_MAX_CONNECTIONS",
            "1",
            "--sequence-parallel refuses to start without it",
            "Megatron-DeepSpeed megatron/arguments.py",
        )
