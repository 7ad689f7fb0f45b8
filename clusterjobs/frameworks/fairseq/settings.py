"""The settings of fairseq that follow from a spec, by the names of fairseq's own config.

They are written as arguments at the end of this module.
Source: fairseq 0.12, fairseq/dataclass/configs.py.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

from clusterjobs.frameworks.arguments import arguments_of
from clusterjobs.frameworks.base import JOB_DIR, Task, folder_on_the_node
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import Key, SpecModel
from clusterjobs.text import Text, Value, changed, join, joined, show
from clusterjobs.yaml.document import Path


class Settings(SpecModel):
    """The program, the model, the data."""

    cli: Annotated[
        Literal["fairseq-train", "fairseq-hydra-train"],
        Key("`fairseq-train` or `fairseq-hydra-train`", "fairseq-hydra-train"),
    ] = "fairseq-train"
    data: Annotated[
        field_types.Path | None,
        Key("the folder of the data", "/fsx/data-bin/wikitext-103", default_is="required"),
    ] = None
    arch: Annotated[
        field_types.Plain | None,
        Key("the architecture", "transformer_lm_gpt2_small", default_is="required"),
    ] = None
    task: Annotated[field_types.Plain | None, Key("the task", "language_modeling")] = None
    criterion: Annotated[field_types.Plain | None, Key("the criterion", "adaptive_loss")] = None
    bucket_cap_mb: Annotated[
        Count | None, Key("the size of the buckets of gradients", "50", unit="MB")
    ] = None
    config_dir: Annotated[
        field_types.Path | None,
        Key("the folder of the config file of fairseq-hydra-train", "/fsx/code/config"),
    ] = None
    config_name: Annotated[
        field_types.Plain | None, Key("the name of that file, without `.yaml`", "base")
    ] = None


class Setting(NamedTuple):
    """`group.key = value` of fairseq's config; `origin` is the key of the spec it follows from.

    A value that is a bool is a switch; None removes a config file's value.
    """

    group: str
    key: str
    value: Value | bool | None
    origin: Path
    is_list: bool = False


def derived_settings(task: Task, fairseq: Settings, given: frozenset[str]) -> list[Setting]:
    """All derived settings, in the order in which a person would write them.

    `given`: the keys that are in `args`; a default is left out for them.
    """
    return [
        *_kind(fairseq),
        *_model(task.spec, fairseq, given),
        *_precision(task.spec),
        *_batch(task, given),
        *_checkpoints(task.spec),
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


def _model(spec: Experiment, fairseq: Settings, given: frozenset[str]) -> Iterator[Setting]:
    model, half = spec.model, half_of(fairseq.arch or "")
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


def _precision(spec: Experiment) -> Iterator[Setting]:
    """All switches: one that a config file sets would win over another, fp16 over bf16."""
    if spec.precision:
        for key in ("fp16", "bf16", "amp"):
            yield Setting("common", key, spec.precision == key, ("precision",))


def _batch(task: Task, given: frozenset[str]) -> Iterator[Setting]:
    if samples := task.samples:
        micro, steps = str(samples.micro), str(samples.accumulation)
        yield Setting("dataset", "batch_size", micro, ("batch", "micro"))
        if "max_tokens" not in given:  # else a config file's would make smaller batches
            yield Setting("dataset", "max_tokens", None, ("batch", "micro"))
        # With fairseq's default, 8, a micro batch of 12 would become batches of 8.
        yield Setting("dataset", "required_batch_size_multiple", "1", ("batch", "micro"))
        yield Setting("optimization", "update_freq", steps, ("batch",), is_list=True)


def _checkpoints(spec: Experiment) -> Iterator[Setting]:
    """fairseq resumes from the last checkpoint in the folder; it starts anew if there is none."""
    if spec.checkpoints:
        folder = folder_on_the_node(spec.checkpoints.path)
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


# ------------------------------------------------------------------ command line
# fairseq's settings as arguments of its two programs.
# `fairseq-train` takes flags; `fairseq-hydra-train` takes hydra's overrides, `group.key=value`,
# which have a grammar of their own: a value with special characters is quoted by its rules.
# Source: hydra 1.3, its override grammar; fairseq 0.12, fairseq_cli/hydra_train.py.


def flag_of(setting: Setting) -> str:
    """`--update-freq`; --arch, --task and --criterion are what hydra calls a group's _name."""
    if setting.key == "_name":
        return f"--{'arch' if setting.group == 'model' else setting.group}"
    return f"--{setting.key.replace('_', '-')}"


def train_command(
    spec: Experiment, fairseq: Settings, settings: Iterable[Setting], on_cpus: bool
) -> tuple[Value, ...]:
    """fairseq-train: the data, flags, and the spec's `args`."""
    found: list[Value] = ["fairseq-train"]
    if fairseq.data:
        found.append(folder_on_the_node(fairseq.data))
    for setting in settings:
        if setting.value is not False and setting.value is not None:
            found.append(flag_of(setting))
        if isinstance(setting.value, (str, Text)):
            found.append(setting.value)
    rank = ("bash", "-c", 'exec "$@" --distributed-rank "$RANK"', "rank") if on_cpus else ()
    return (*rank, *found, *arguments_of(spec))


def hydra_command(
    spec: Experiment, fairseq: Settings, settings: Iterable[Setting], on_cpus: bool
) -> tuple[Value, ...]:
    """fairseq-hydra-train: overrides, and the spec's `args`."""
    found: list[Value] = ["fairseq-hydra-train"]
    if fairseq.config_dir:
        found += ["--config-dir", folder_on_the_node(fairseq.config_dir)]
    if fairseq.config_name:
        found += ["--config-name", fairseq.config_name]
    if fairseq.data:
        data = Setting("task", "data", folder_on_the_node(fairseq.data), ("fairseq", "data"))
        found.append(override_of(data, fairseq.config_name is not None))
    found += [override_of(setting, fairseq.config_name is not None) for setting in settings]
    if on_cpus:
        found.append("distributed_training.distributed_rank=${oc.env:RANK}")
    # hydra writes its log and config here, by default into workdir
    found.append(joined("hydra.run.dir='", JOB_DIR, "/hydra'"))
    return (*found, *_own_overrides(spec))


def override_of(setting: Setting, in_config: bool = False) -> Value:
    """`++model.encoder_layers=24`: ++ adds a key that hydra's config lacks, as all of a model's.

    `in_config`: the task is in the user's config file, with only the keys that are written there,
    and without the list of defaults that `task=` would change.
    """
    value = setting.value if isinstance(setting.value, (str, Text)) else _SWITCHES[setting.value]
    if setting.key == "_name" and setting.group != "model" and not in_config:
        return joined(f"{setting.group}=", _quoted(value))
    is_new = setting.group == "model" or (in_config and setting.group in ("task", "criterion"))
    name = f"{'++' if is_new else ''}{setting.group}.{setting.key}"
    return joined(name, "=[", value, "]") if setting.is_list else joined(name, "=", _quoted(value))


_SWITCHES = {True: "true", False: "false", None: "null"}
_PLAIN = re.compile(r"[\w./:+@%-]+", re.ASCII)


def _quoted(value: Value) -> Value:
    """A value quoted by hydra's grammar: backslashes are escaped before a quote, and only there."""
    return changed(value, _quoted_text)


def _quoted_text(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    sign = '"' if "'" in text and '"' not in text else "'"
    inner = re.sub(rf"(\\*)(?={sign}|$)", r"\1\1", text)
    return sign + inner.replace(sign, f"\\{sign}") + sign


def _own_overrides(spec: Experiment) -> Iterator[Value]:
    arguments = spec.args
    if not isinstance(arguments, Mapping):
        yield from arguments
        return
    for name, value in arguments.items():
        if name.startswith("-"):
            yield from arguments_of(spec.model_copy(update={"args": {name: value}}))
        elif isinstance(value, bool):
            yield f"{name}={'true' if value else 'false'}"
        elif isinstance(value, tuple):
            yield joined(name, "=[", join(",", map(_quoted, value)), "]")
        else:
            yield joined(name, "=", _quoted(value))


def argument_keys(spec: Experiment) -> list[tuple[str | int, str, str]]:
    """Of each argument: its position in `args`, its name as written, and fairseq's key.

    `--update-freq`, `optimization.update_freq` and `++optimization.update_freq=[4]` are all
    update_freq.
    """
    arguments = spec.args
    if isinstance(arguments, Mapping):
        named: list[tuple[str | int, str]] = [(name, name) for name in arguments]
    else:
        named = [
            (position, argument)
            for position, argument in enumerate(map(show, arguments))
            if argument.startswith("-") or "=" in argument
        ]
    return [(position, name.partition("=")[0], _key(name)) for position, name in named]


def _key(argument: str) -> str:
    name = argument.lstrip("-+~").partition("=")[0].partition("@")[0]
    group, _, last = name.replace("-", "_").rpartition(".")
    kind = group if last == "_name" else last
    return "arch" if kind == "model" else kind
