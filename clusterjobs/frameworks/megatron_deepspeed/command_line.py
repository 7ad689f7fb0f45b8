"""Megatron-DeepSpeed's flags, keys of ds_config.json and variables that a spec's keys become.

Source of the flags: megatron/arguments.py.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from clusterjobs.frameworks.arguments import arguments_by_key
from clusterjobs.frameworks.base import JOB_DIR, Task, Variable
from clusterjobs.frameworks.ds_config import (
    CONFIG_NAME,
    DS_CONFIG,
    ZERO,
    Zero,
    derived_config,
    extensions_folder,
)
from clusterjobs.frameworks.megatron.command_line import (
    ModelFlags,
    batch_arguments,
    checkpoint_arguments,
    model_arguments,
    parallel_arguments,
)
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import FLAG, Also, Key, SpecModel, TopLevelKeys
from clusterjobs.text import Value, joined


class ActivationCheckpointing(SpecModel):
    """Activations computed again in the backward pass, by DeepSpeed's implementation."""

    layers: Annotated[Count, Key("one checkpoint for so many layers", "2")] = 1
    partition: Annotated[bool, Key("divide it over the tensor ranks", "true")] = False
    cpu: Annotated[bool, Key("move it to the host's memory", "true")] = False


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

    zero: Annotated[Zero, ZERO] = Zero(stage=0)
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


_MODEL_FLAGS = ModelFlags(("--num-key-value-heads",), "--topk")


def _deepspeed_arguments(options: Options) -> Iterator[Value]:
    yield from ("--deepspeed", "--deepspeed_config", joined(JOB_DIR, "/", CONFIG_NAME))
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
    if "sequence_parallel" in arguments_by_key(task.spec):
        yield Variable(
            "CUDA_DEVICE_MAX_CONNECTIONS",
            "1",
            "--sequence-parallel refuses to start without it",
            "Megatron-DeepSpeed megatron/arguments.py",
        )
