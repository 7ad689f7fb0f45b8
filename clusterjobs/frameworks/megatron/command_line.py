"""Megatron's flags that a spec's keys become, and the keys that they come from.

Source: arguments.py of both Megatrons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import (
    Argument,
    argument_key,
    argument_names,
    arguments_by_key,
    given_arguments,
)
from clusterjobs.frameworks.base import EXIT_MINUTES, Saving, Task, folder_on_the_node
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.model import Model
from clusterjobs.text import Value
from clusterjobs.yaml.document import Path

TRACKER = "latest_checkpointed_iteration.txt"
# Not by its signal handler: under torchrun, the ranks get SIGKILL 30 s after SIGTERM, and
# SIGTERM ends Megatron-DeepSpeed's data loaders.
SAVING = Saving(
    "clock",
    "--exit-duration-in-mins makes all ranks save and exit in the same iteration",
    TRACKER,
    overwritten=((TRACKER, r"iter_0*(\d+)"),),
)


LENGTH_ARGUMENTS = (
    *("train-iters", "train-samples", "train-tokens"),
    *("skip-train", "inference", "task", "epochs"),  # nothing to train, or tasks/main.py
)


class ModelFlags(NamedTuple):
    """The names of the flags for the optional keys of `model`, where the two Megatrons differ."""

    kv_heads: tuple[str, ...]  # the last takes the number
    experts_per_token: str


def model_arguments(spec: Experiment, has_positions: bool, names: ModelFlags) -> Iterator[str]:
    """The model's size, and its precision."""
    names_given = {argument_key(name) for _, name in argument_names(spec)}
    if model := spec.model:
        yield from ("--num-layers", str(model.layers), "--hidden-size", str(model.hidden))
        yield from ("--num-attention-heads", str(model.heads))
        yield from ("--seq-length", str(model.sequence))
        if has_positions and "max_position_embeddings" not in names_given:
            yield from ("--max-position-embeddings", str(model.sequence))
        for one in _of_optional_keys(model, names):
            yield from (f"--{one.name}", *one.texts)
    if spec.precision in ("fp16", "bf16"):
        yield f"--{spec.precision}"


def _of_optional_keys(model: Model, names: ModelFlags) -> Iterator[Argument]:
    """The arguments that follow from the optional keys of `model`."""

    def of(key: str, name: str, *values: object) -> Argument:
        return Argument(key, name, tuple(map(str, values)), "model")

    if model.kv_heads and model.kv_heads != model.heads:
        *switches, name = names.kv_heads
        yield from (of("kv_heads", one) for one in switches)
        yield of("kv_heads", name, model.kv_heads)
    if model.ffn:
        yield of("ffn", "ffn-hidden-size", model.ffn)
    if model.glu:
        yield of("glu", "swiglu")
    if model.tied is False:
        yield of("tied", "untie-embeddings-and-output-weights")
    if model.experts:
        yield of("experts", "num-experts", model.experts)
        yield of("experts_per_token", names.experts_per_token, model.experts_per_token)


def all_arguments(spec: Experiment, names: ModelFlags) -> dict[str, Argument]:
    """The spec's arguments by their keys, and those that follow from optional keys of `model`."""
    derived = _of_optional_keys(spec.model, names) if spec.model else ()
    return {**{one.key: one for one in derived}, **arguments_by_key(spec)}


def parallel_arguments(task: Task) -> Iterator[str]:
    """The sizes that both have."""
    yield from ("--tensor-model-parallel-size", str(task.parallelism.tensor))
    yield from ("--pipeline-model-parallel-size", str(task.parallelism.pipeline))


def batch_arguments(task: Task) -> Iterator[str]:
    """The batch of one rank, and of all, unless a schedule in `args` has the latter."""
    if samples := task.samples:
        yield from ("--micro-batch-size", str(samples.micro))
        if "step_batch_size_schedule" not in arguments_by_key(task.spec):
            yield from ("--global-batch-size", str(samples.global_))


def checkpoint_arguments(spec: Experiment) -> Iterator[Value]:
    """Resume from the newest checkpoint in the folder; start anew if there is none."""
    if spec.checkpoints:
        folder = folder_on_the_node(spec.checkpoints.path)
        yield from ("--save", folder, "--load", folder)
    if spec.restarts:
        yield from ("--exit-duration-in-mins", EXIT_MINUTES)


# ------------------------------------------------------------------ refused arguments

DERIVED_FROM: dict[str, Path] = {
    "num_layers": ("model", "layers"),
    "encoder_num_layers": ("model", "layers"),
    "hidden_size": ("model", "hidden"),
    "num_attention_heads": ("model", "heads"),
    "seq_length": ("model", "sequence"),
    "encoder_seq_length": ("model", "sequence"),
    "tensor_model_parallel_size": ("parallel", "tensor"),
    "model_parallel_size": ("parallel", "tensor"),
    "pipeline_model_parallel_size": ("parallel", "pipeline"),
    "micro_batch_size": ("batch", "micro"),
    "batch_size": ("batch", "micro"),
    "global_batch_size": ("batch", "global"),
    "fp16": ("precision",),
    "bf16": ("precision",),
}


def size_hints(spec: Experiment, derived: Mapping[str, Path]) -> dict[str, str]:
    """Hints for sizes in `args` that `parallel` does not have: where to write them."""
    hints = {}
    for one in given_arguments(spec):
        section, *key = map(str, derived.get(one.key, ("",)))
        value = one.texts[0] if len(one.texts) == 1 else "true"
        is_size = section == "parallel" and (value.isdecimal() or not one.texts)
        if is_size and key[0] not in spec.parallel.model_fields_set:
            hints[one.key] = f"remove it, and write parallel: {{{key[0]}: {value}}}"
    return hints


# Options of deepspeed and torchrun; after the script they are the script's, which has none of them.
_OF_THE_LAUNCHER = (
    *("include", "exclude", "hostfile", "num_gpus", "num_nodes", "launcher", "launcher_args"),
    *("master_addr", "master_port", "nproc_per_node", "nnodes", "node_rank"),
)
_OF_MODEL = {
    "kv_heads": ("num_query_groups", "group_query_attention", "num_key_value_heads"),
    "ffn": ("ffn_hidden_size",),
    "glu": ("swiglu",),
    "tied": ("untie_embeddings_and_output_weights",),
    "experts": ("num_experts",),
    "experts_per_token": ("moe_router_topk", "topk"),
}


def _by_model(model: Model | None) -> dict[str, Path]:
    """The flags that follow from the optional keys of `model` that the spec has."""
    return {
        flag: ("model", key)
        for key, flags in _OF_MODEL.items()
        if model and getattr(model, key) is not None
        for flag in flags
    }


_BY_RESTARTS: dict[str, Path] = {"exit_duration_in_mins": ("restarts",)}
_BY_CHECKPOINTS: dict[str, Path] = {
    "save": ("checkpoints", "path"),
    "load": ("checkpoints", "path"),
}


def origins_of(
    spec: Experiment, further: dict[str, Path], diagnostics: Diagnostics
) -> dict[str, str]:
    """Arguments that `args` may not have, and the keys that they follow from."""
    derived = {
        **DERIVED_FROM,
        **further,
        **_by_model(spec.model),
        **(_BY_CHECKPOINTS if spec.checkpoints else {}),
        **(_BY_RESTARTS if spec.restarts else {}),
    }
    origins = {name: diagnostics.describe_key(path) for name, path in derived.items()}
    ranks = f"{diagnostics.describe_key(('nodes',))} and the launcher"
    return {
        **origins,
        **dict.fromkeys(_OF_THE_LAUNCHER, ranks),
        "local_rank": "the launcher, which sets LOCAL_RANK",
    }
