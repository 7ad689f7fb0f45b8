"""Arguments with which a Trainer fails at its start, or cannot resume.

Knows the Trainer's arguments; it must not know launchers. Source: transformers 5.23.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.frameworks.accelerate import Options
from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.frameworks.base import ConfigFile, Task
from clusterjobs.frameworks.given import GivenArguments
from clusterjobs.frameworks.rules import Finding, Rule, rule
from clusterjobs.yaml.document import look_at


class TrainerArguments(NamedTuple):
    """A spec's arguments, and the derived config of DeepSpeed, if it has one."""

    given: GivenArguments
    options: Options
    ds_config: Mapping[str, Any]

    @classmethod
    def of(cls, task: Task, options: Options, files: Iterable[ConfigFile]) -> TrainerArguments:
        """The arguments of a task; `files`: its ds_config.json, if it has one."""
        given = {one.key: one for one in given_arguments(task.experiment)}
        configs = [json.loads(one.text) for one in files]
        return cls(GivenArguments(task, given), options, configs[0] if configs else {})

    @property
    def restarts(self) -> bool:
        """Whether the job may restart, from the checkpoints of the training."""
        return self.given.task.experiment.restarts is not None


@rule(
    "a file of arguments (`args: [sft.json]`) beside derived arguments",
    "HfArgumentParser reads such a file only if it is the only argument, and refuses it here",
    "transformers examples: run_clm.py, parse_json_file",
)
def file_of_arguments(arguments: TrainerArguments) -> Iterator[Finding]:
    args = arguments.given.task.experiment.args
    if isinstance(args, tuple) and args and args[0].endswith((".json", ".yaml", ".yml")):
        yield Finding(
            ("args", 0),
            f"the script reads {args[0]} only if it is the only argument, and others are derived",
            "write the arguments below args; TRL's scripts take a file: args: {config: sft.yaml}",
        )


# Keys of ds_config that the Trainer compares with its arguments, and their defaults.
_COMPARED: tuple[tuple[tuple[str, ...], str, float], ...] = (
    (("gradient_clipping",), "max_grad_norm", 1.0),
    (("optimizer", "params", "lr"), "learning_rate", 5e-5),
    (("optimizer", "params", "weight_decay"), "weight_decay", 0.0),
    (("optimizer", "params", "eps"), "adam_epsilon", 1e-8),
    (("scheduler", "params", "warmup_max_lr"), "learning_rate", 5e-5),
)


@rule(
    "a learning rate, weight decay or clipping in ds_config, and another value in args",
    "the Trainer raises ValueError when it starts; also if args has none and its default differs",
    "transformers integrations/deepspeed.py, trainer_config_process",
)
def two_values(arguments: TrainerArguments) -> Iterator[Finding]:
    for path, name, default in _COMPARED:
        value = look_at(arguments.ds_config, path)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if arguments.given.has(name):
            number = arguments.given.number(name)
            whose = f"{arguments.given.text(name)} in args"
        else:
            number, whose = default, f"{default} by default"
        if number is not None and number != value:
            what = f"{value} here, but {name} is {whose}: the Trainer refuses to start"
            yield Finding(("ds_config", *path), what, 'write "auto", and the value in args alone')


@rule(
    '`save_strategy: "no"` or `save_only_model` with restarts',
    "no checkpoint from which a training could resume",
    "transformers training_args.py",
)
def nothing_to_resume(arguments: TrainerArguments) -> Iterator[Finding]:
    given = arguments.given
    if not arguments.restarts:
        return
    if given.text("save_strategy") == "no":
        what = "no checkpoint is saved, and restarts resume from one"
        yield given.finding("save_strategy", what, "write save_strategy: steps, and save_steps")
    if given.has("save_only_model") and given.text("save_only_model") not in ("False", "false"):
        what = "the optimizer is not saved, and restarts resume with it"
        yield given.finding("save_only_model", what, "remove it, or restarts")


@rule(
    "`enable_jit_checkpoint` with several ranks",
    "each rank saves after its own timer: ranks at different steps wait for each other forever",
    "transformers trainer_jit_checkpoint.py, CheckpointManager",
    warning=True,
)
def jit_checkpoint(arguments: TrainerArguments) -> Iterator[Finding]:
    given = arguments.given
    if given.has("enable_jit_checkpoint") and given.task.shape.world_size > 1:
        what = "ranks that get SIGTERM at different steps would wait for each other forever"
        hint = "use the callback in docs/frameworks/huggingface.md, with which the ranks agree"
        yield given.finding("enable_jit_checkpoint", what, hint)


RULES: tuple[Rule[TrainerArguments], ...] = (
    file_of_arguments,
    two_values,
    nothing_to_resume,
    jit_checkpoint,
)
