"""fairseq's settings as arguments of its two programs.

`fairseq-train` takes flags; `fairseq-hydra-train` takes hydra's overrides, `group.key=value`,
which have a grammar of their own: a value with special characters is quoted by its rules.
Source: hydra 1.3, its override grammar; fairseq 0.12, fairseq_cli/hydra_train.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from clusterjobs.frameworks.arguments import arguments_of
from clusterjobs.frameworks.base import JOB_DIR, folder_on_the_node
from clusterjobs.frameworks.fairseq.settings import Setting, Settings
from clusterjobs.spec.experiment import Experiment


def flag_of(setting: Setting) -> str:
    """`--update-freq`; --arch, --task and --criterion are what hydra calls a group's _name."""
    if setting.key == "_name":
        return f"--{'arch' if setting.group == 'model' else setting.group}"
    return f"--{setting.key.replace('_', '-')}"


def train_command(
    experiment: Experiment, fairseq: Settings, settings: Iterable[Setting], on_cpus: bool
) -> tuple[str, ...]:
    """fairseq-train: the data, flags, and the spec's `args`."""
    found = ["fairseq-train"]
    if fairseq.data:
        found.append(folder_on_the_node(fairseq.data))
    for setting in settings:
        if setting.value is not False and setting.value is not None:
            found.append(flag_of(setting))
        if isinstance(setting.value, str):
            found.append(setting.value)
    rank = ("bash", "-c", 'exec "$@" --distributed-rank "$RANK"', "rank") if on_cpus else ()
    return (*rank, *found, *arguments_of(experiment))


def hydra_command(
    experiment: Experiment, fairseq: Settings, settings: Iterable[Setting], on_cpus: bool
) -> tuple[str, ...]:
    """fairseq-hydra-train: overrides, and the spec's `args`."""
    found = ["fairseq-hydra-train"]
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
    found.append(f"hydra.run.dir='{JOB_DIR}/hydra'")
    return (*found, *_own_overrides(experiment))


def override_of(setting: Setting, in_config: bool = False) -> str:
    """`++model.encoder_layers=24`: ++ adds a key that hydra's config lacks, as all of a model's.

    `in_config`: the task is in the user's config file, with only the keys that are written there,
    and without the list of defaults that `task=` would change.
    """
    if setting.key == "_name" and setting.group != "model" and not in_config:
        return f"{setting.group}={_quoted(str(setting.value))}"
    is_new = setting.group == "model" or (in_config and setting.group in ("task", "criterion"))
    new = "++" if is_new else ""
    value = setting.value if isinstance(setting.value, str) else _SWITCHES[setting.value]
    value = f"[{value}]" if setting.is_list else _quoted(value)
    return f"{new}{setting.group}.{setting.key}={value}"


_SWITCHES = {True: "true", False: "false", None: "null"}
_PLAIN = re.compile(r"[\w./:+@%-]+", re.ASCII)


def _quoted(text: str) -> str:
    """A text quoted by hydra's grammar: backslashes are escaped before a quote, and only there."""
    if _PLAIN.fullmatch(text):
        return text
    sign = '"' if "'" in text and '"' not in text else "'"
    inner = re.sub(rf"(\\*)(?={sign}|$)", r"\1\1", text)
    return sign + inner.replace(sign, f"\\{sign}") + sign


def _own_overrides(experiment: Experiment) -> Iterator[str]:
    arguments = experiment.args
    if not isinstance(arguments, Mapping):
        yield from arguments
        return
    for name, value in arguments.items():
        if name.startswith("-"):
            yield from arguments_of(experiment.model_copy(update={"args": {name: value}}))
        elif isinstance(value, bool):
            yield f"{name}={'true' if value else 'false'}"
        elif isinstance(value, tuple):
            yield f"{name}=[{','.join(map(_quoted, value))}]"
        else:
            yield f"{name}={_quoted(value)}"


def argument_keys(experiment: Experiment) -> list[tuple[str | int, str, str]]:
    """Of each argument: its position in `args`, its name as written, and fairseq's key.

    `--update-freq`, `optimization.update_freq` and `++optimization.update_freq=[4]` are all
    update_freq.
    """
    arguments = experiment.args
    if isinstance(arguments, Mapping):
        named: list[tuple[str | int, str]] = [(name, name) for name in arguments]
    else:
        named = [
            (position, argument)
            for position, argument in enumerate(arguments)
            if argument.startswith("-") or "=" in argument
        ]
    return [(position, name.partition("=")[0], _key(name)) for position, name in named]


def _key(argument: str) -> str:
    name = argument.lstrip("-+~").partition("=")[0].partition("@")[0]
    group, _, last = name.replace("-", "_").rpartition(".")
    kind = group if last == "_name" else last
    return "arch" if kind == "model" else kind
