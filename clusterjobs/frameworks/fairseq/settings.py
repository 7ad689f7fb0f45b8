"""What follows for fairseq from a spec: its settings, by the names of fairseq's own config.

How a command line writes them is fairseq_words.py's.
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
    """`fairseq`: which command line, what it trains on which data.

    `config_dir` and `config_name` are the hydra command line's own config.
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
    """`group.key = value` of fairseq's config, and the key of the spec that it follows from.

    True is a switch.
    """

    group: str
    key: str
    value: str | bool
    said_by: Path
    is_list: bool = False


def derived_settings(task: Task, fairseq: Settings, given: frozenset[str]) -> list[Setting]:
    """All that is derived, in the order in which a person would write it.

    `given`: what `args` says itself; a default gives way to it.
    """
    return [
        *_kind(fairseq),
        *_model(task.experiment, fairseq, given),
        *_precision(task.experiment),
        *_batch(task),
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


# The half of a transformer that an architecture has, by its name's beginning.
_HALVES = {"roberta": "encoder", "transformer_lm": "decoder"}


def half_of(arch: str) -> str | None:
    """`encoder` or `decoder`: how fairseq calls the layers of this architecture."""
    return next((half for start, half in _HALVES.items() if re.match(start, arch)), None)


def _model(experiment: Experiment, fairseq: Settings, given: frozenset[str]) -> Iterator[Setting]:
    model, half = experiment.model, half_of(fairseq.arch or "")
    if model is None or half is None:
        return
    yield Setting("model", f"{half}_layers", str(model.layers), ("model", "layers"))
    yield Setting("model", f"{half}_embed_dim", str(model.hidden), ("model", "hidden"))
    if f"{half}_ffn_embed_dim" not in given:  # else an architecture's own, of another width
        feed_forward = str(4 * model.hidden)
        yield Setting("model", f"{half}_ffn_embed_dim", feed_forward, ("model", "hidden"))
    yield Setting("model", f"{half}_attention_heads", str(model.heads), ("model", "heads"))
    yield Setting("task", "tokens_per_sample", str(model.sequence), ("model", "sequence"))
    if half == "encoder":
        yield Setting("model", "max_positions", str(model.sequence), ("model", "sequence"))


def _precision(experiment: Experiment) -> Iterator[Setting]:
    if experiment.precision in ("fp16", "bf16"):
        yield Setting("common", experiment.precision, True, ("precision",))


def _batch(task: Task) -> Iterator[Setting]:
    if samples := task.samples:
        micro, steps = str(samples.micro), str(samples.accumulation)
        yield Setting("dataset", "batch_size", micro, ("batch", "micro"))
        # 8, fairseq's own, makes batches of 8 of a micro batch of 12.
        yield Setting("dataset", "required_batch_size_multiple", "1", ("batch", "micro"))
        yield Setting("optimization", "update_freq", steps, ("batch",), is_list=True)


def _checkpoints(experiment: Experiment) -> Iterator[Setting]:
    """It goes on from the folder's last checkpoint, and starts afresh where there is none."""
    if experiment.checkpoints:
        folder = folder_on_the_node(experiment.checkpoints.path)
        yield Setting("checkpoint", "save_dir", folder, ("checkpoints", "path"))


def _ranks(task: Task, fairseq: Settings, given: frozenset[str]) -> Iterator[Setting]:
    """With GPUs, address and rank are taken from the launcher's variables once the size is said.

    Without, fairseq divides by the number of GPUs on that way: there all is said.
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
    if "ddp_backend" not in given:  # fairseq's default asks for a GPU
        yield Setting(group, "ddp_backend", "legacy_ddp", nodes)
    if task.shape.world_size > 1:
        yield Setting(group, "distributed_init_method", "env://", nodes)
        yield Setting(group, "distributed_no_spawn", True, nodes)


# What the launcher and the number of ranks decide, said or inferred: `args` must not.
OF_THE_LAUNCHER = (
    *("device_id", "local_rank", "distributed_rank", "distributed_world_size"),
    *("distributed_num_procs", "distributed_port", "distributed_init_method"),
    *("distributed_no_spawn", "nprocs_per_node"),
)
