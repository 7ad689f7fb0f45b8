"""The settings of fairseq that follow from a spec, by the names of fairseq's own config.

Knows no command line: command_line.py writes the settings as arguments.
Source: fairseq 0.12, fairseq/dataclass/configs.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from clusterjobs.frameworks.base import Task, folder_on_the_node
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import SpecModel
from clusterjobs.yaml.document import Path


class Settings(SpecModel):
    """`fairseq`: the program, the model, the data.

    `config_dir` and `config_name`: the config file of fairseq-hydra-train.
    """

    cli: Literal["fairseq-train", "fairseq-hydra-train"] = "fairseq-train"
    data: field_types.Path | None = None
    arch: field_types.Plain | None = None
    task: field_types.Plain | None = None
    criterion: field_types.Plain | None = None
    bucket_cap_mb: Count | None = None
    config_dir: field_types.Path | None = None
    config_name: field_types.Plain | None = None


class Setting(NamedTuple):
    """`group.key = value` of fairseq's config; `origin` is the key of the spec it follows from.

    A value that is a bool is a switch; None removes a config file's value.
    """

    group: str
    key: str
    value: str | bool | None
    origin: Path
    is_list: bool = False


def derived_settings(task: Task, fairseq: Settings, given: frozenset[str]) -> list[Setting]:
    """All derived settings, in the order in which a person would write them.

    `given`: the keys that are in `args`; a default is left out for them.
    """
    return [
        *_kind(fairseq),
        *_model(task.experiment, fairseq, given),
        *_precision(task.experiment),
        *_batch(task, given),
        *_checkpoints(task.experiment),
        *_ranks(task, fairseq, given),
    ]


def _kind(fairseq: Settings) -> Iterator[Setting]:
    if fairseq.task:
        yield Setting("task", "_name", fairseq.task, ("fairseq", "task"))
    if fairseq.criterion:
        yield Setting("criterion", "_name", fairseq.criterion, ("fairseq", "criterion"))
    if fairseq.arch:
        yield Setting("model", "_name", fairseq.arch, ("fairseq", "arch"))


# Which half of a transformer an architecture is, by the beginning of its name.
_HALVES = {"roberta": "encoder", "transformer_lm": "decoder"}


def half_of(arch: str) -> str | None:
    """`encoder` or `decoder`: the prefix of this architecture's keys; None if it is unknown."""
    return next((half for start, half in _HALVES.items() if re.match(start, arch)), None)


def _model(experiment: Experiment, fairseq: Settings, given: frozenset[str]) -> Iterator[Setting]:
    model, half = experiment.model, half_of(fairseq.arch or "")
    if model is None or half is None:
        return
    yield Setting("model", f"{half}_layers", str(model.layers), ("model", "layers"))
    yield Setting("model", f"{half}_embed_dim", str(model.hidden), ("model", "hidden"))
    if model.ffn:
        yield Setting("model", f"{half}_ffn_embed_dim", str(model.ffn), ("model", "ffn"))
    elif f"{half}_ffn_embed_dim" not in given:  # the default fits the architecture's hidden size
        feed_forward = str(4 * model.hidden)
        yield Setting("model", f"{half}_ffn_embed_dim", feed_forward, ("model", "hidden"))
    yield Setting("model", f"{half}_attention_heads", str(model.heads), ("model", "heads"))
    yield Setting("task", "tokens_per_sample", str(model.sequence), ("model", "sequence"))
    if half == "encoder" and "max_positions" not in given:
        yield Setting("model", "max_positions", str(model.sequence), ("model", "sequence"))


def _precision(experiment: Experiment) -> Iterator[Setting]:
    """All switches: one that a config file sets would win over another, fp16 over bf16."""
    if experiment.precision:
        for key in ("fp16", "bf16", "amp"):
            yield Setting("common", key, experiment.precision == key, ("precision",))


def _batch(task: Task, given: frozenset[str]) -> Iterator[Setting]:
    if samples := task.samples:
        micro, steps = str(samples.micro), str(samples.accumulation)
        yield Setting("dataset", "batch_size", micro, ("batch", "micro"))
        if "max_tokens" not in given:  # else a config file's would make smaller batches
            yield Setting("dataset", "max_tokens", None, ("batch", "micro"))
        # With fairseq's default, 8, a micro batch of 12 would become batches of 8.
        yield Setting("dataset", "required_batch_size_multiple", "1", ("batch", "micro"))
        yield Setting("optimization", "update_freq", steps, ("batch",), is_list=True)


def _checkpoints(experiment: Experiment) -> Iterator[Setting]:
    """fairseq resumes from the last checkpoint in the folder; it starts anew if there is none."""
    if experiment.checkpoints:
        folder = folder_on_the_node(experiment.checkpoints.path)
        yield Setting("checkpoint", "save_dir", folder, ("checkpoints", "path"))


def _ranks(task: Task, fairseq: Settings, given: frozenset[str]) -> Iterator[Setting]:
    """With GPUs and a world size, fairseq reads address and rank from the launcher's variables.

    Without GPUs it would then divide by their number, so every setting is given.
    """
    group = "distributed_training"
    world, nodes = str(task.shape.world_size), ("nodes",)
    yield Setting(group, "distributed_world_size", world, nodes)
    if fairseq.bucket_cap_mb:
        bucket = str(fairseq.bucket_cap_mb)
        yield Setting(group, "bucket_cap_mb", bucket, ("fairseq", "bucket_cap_mb"))
    if task.shape.gpus_per_node:
        return
    yield Setting("common", "cpu", True, nodes)
    yield Setting(group, "distributed_backend", "gloo", nodes)
    if "ddp_backend" not in given:  # fairseq's default needs a GPU
        yield Setting(group, "ddp_backend", "legacy_ddp", nodes)
    if task.shape.world_size > 1:
        yield Setting(group, "distributed_init_method", "env://", nodes)
        yield Setting(group, "distributed_no_spawn", True, nodes)


# Decided by the launcher and the number of ranks: refused in `args`.
OF_THE_LAUNCHER = (
    *("device_id", "local_rank", "distributed_rank", "distributed_world_size"),
    *("distributed_num_procs", "distributed_port", "distributed_init_method"),
    *("distributed_no_spawn", "nprocs_per_node"),
)
