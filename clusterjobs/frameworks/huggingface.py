"""A script with Hugging Face's Trainer, or one of TRL's: `framework: huggingface`.

The Trainer gets its settings as arguments (TrainingArguments) and files that they name.
Source: transformers 5.23, training_args.py and trainer.py; trl 1.16, trainer/base_config.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.accelerate import (
    Accelerate,
    Options,
    check_division,
    deepspeed_file,
    divides,
    launch_file,
    own_launch_config,
)
from clusterjobs.frameworks.arguments import (
    argument_key,
    argument_names,
    arguments_by_key,
    arguments_of,
    refuse_derived,
    refuse_variables,
    script_of,
)
from clusterjobs.frameworks.base import (
    JOB_DIR,
    OWN_SCRIPT,
    ConfigFile,
    Program,
    Task,
    folder_on_the_node,
)
from clusterjobs.frameworks.ds_config import CONFIG_NAME, extensions_folder, json_text
from clusterjobs.frameworks.flags import check_arguments, table
from clusterjobs.frameworks.rules import (
    Case,
    Finding,
    GivenArguments,
    Rule,
    check_rules,
    row,
    rule,
)
from clusterjobs.frameworks.torch_foreseen import trainer_config, trainer_option
from clusterjobs.launchers.accelerate import ACCELERATE
from clusterjobs.text import Value, joined, show
from clusterjobs.yaml.document import look_at

# ------------------------------------------------------------------ arguments that fail


class TrainerArguments(NamedTuple):
    """A spec's arguments, and the derived config of DeepSpeed, if it has one."""

    given: GivenArguments
    ds_config: Mapping[str, Any]

    @classmethod
    def of(cls, task: Task, files: Iterable[ConfigFile]) -> TrainerArguments:
        """The arguments of a task; `files`: its ds_config.json, if it has one."""
        given = GivenArguments(task, arguments_by_key(task.spec))
        configs = [json.loads(show(one.text)) for one in files]
        return cls(given, configs[0] if configs else {})


@rule(
    "a file of arguments (`args: [sft.json]`) beside derived arguments",
    "HfArgumentParser reads such a file only if it is the only argument, and refuses it here",
    "transformers examples: run_clm.py, parse_json_file",
)
def file_of_arguments(arguments: TrainerArguments) -> Iterator[Finding]:
    args = arguments.given.task.spec.args
    if isinstance(args, tuple) and args and show(args[0]).endswith((".json", ".yaml", ".yml")):
        yield Finding(
            ("args", 0),
            f"the script reads {show(args[0])} only if it is the only argument, and others are "
            "derived",
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


# What the Trainer takes without a word. Source: transformers training_args.py, trainer.py.
SILENT_RULES: tuple[Rule[GivenArguments], ...] = (
    row(
        '`save_strategy: "no"` or `save_only_model` with restarts',
        "no checkpoint from which a training could resume",
        "transformers training_args.py",
        Case(
            "save_strategy",
            "spec.restarts, it == no",
            "no checkpoint is saved, and restarts resume from one",
            "write save_strategy: steps, and save_steps",
        ),
        Case(
            "save_only_model",
            "spec.restarts, it != False|false",
            "the optimizer is not saved, and restarts resume with it",
            "remove it, or restarts",
        ),
    ),
    row(
        "`enable_jit_checkpoint` with several ranks",
        "each rank saves after its own timer: ranks at different steps wait for each other forever",
        "transformers trainer_jit_checkpoint.py, CheckpointManager",
        Case(
            "enable_jit_checkpoint",
            "shape.world_size > 1",
            "ranks that get SIGTERM at different steps would wait for each other forever",
            "use the callback in docs/frameworks/huggingface.md, with which the ranks agree",
        ),
        warning=True,
    ),
    row(
        "`save_steps` with `save_strategy: epoch`, and the same of `eval_` and `logging_`",
        "the number is not read",
        "transformers trainer_callback.py, DefaultFlowCallback",
        *(
            Case(
                f"{name}_steps",
                f"{name}_strategy == epoch|no|best",
                f"{name}_steps is not read: {name}_strategy is {{{name}_strategy}}",
                f"write {name}_strategy: steps, or remove it",
            )
            for name in ("save", "eval", "logging")
        ),
        Case(
            "eval_steps",
            "not eval_strategy, not evaluation_strategy",
            "eval_steps is not read: eval_strategy is no by default",
            "add `eval_strategy: steps`, or remove it",
        ),
        warning=True,
    ),
    row(
        "`max_steps: 1`",
        "it ends after one step",
        "transformers trainer.py",
        Case("max_steps", "it == 1", "the training ends after one step", "remove it"),
        warning=True,
    ),
    row(
        "a warm-up as long as the training",
        "the learning rate never reaches its value",
        "transformers optimization.py, get_scheduler",
        Case(
            "warmup_steps",
            "it >= max_steps, max_steps > 0",
            "a warm-up of {it:g} steps, and the training has {max_steps:g}",
            "a shorter warm-up",
        ),
        warning=True,
    ),
    row(
        "`save_steps` longer than the training",
        "it saves at the end alone",
        "transformers trainer_callback.py, DefaultFlowCallback",
        Case(
            "save_steps",
            "it > max_steps, max_steps > 0",
            "a checkpoint every {it:g} steps, and the training has {max_steps:g}",
            "a smaller save_steps",
        ),
        warning=True,
    ),
    row(
        "`save_strategy: best` without `metric_for_best_model`",
        "the Trainer raises ValueError once the model has been loaded",
        "transformers trainer.py, _validate_args",
        Case(
            "save_strategy",
            "it == best, not metric_for_best_model",
            "best by which metric? the Trainer refuses it once the model is loaded",
            "add `metric_for_best_model: loss`, or save_strategy: steps",
        ),
    ),
    row(
        "`warmup_steps` with `lr_scheduler_type: constant`",
        "there is no warm-up",
        "transformers optimization.py, get_scheduler",
        Case(
            "warmup_steps|warmup_ratio",
            "lr_scheduler_type == constant",
            "{argument} is not read: lr_scheduler_type is constant",
            "lr_scheduler_type: constant_with_warmup",
        ),
        warning=True,
    ),
    row(
        "`logging_steps` longer than the training",
        "no loss is logged",
        "transformers trainer_callback.py, DefaultFlowCallback",
        Case(
            "logging_steps",
            "it > max_steps, max_steps > 0",
            "a line every {it:g} steps, and the training has {max_steps:g}: no loss is logged",
            "a smaller logging_steps",
        ),
        warning=True,
    ),
    row(
        "arguments of the Hub without `push_to_hub`",
        "nothing is uploaded",
        "transformers trainer.py, Trainer",
        Case(
            "hub_model_id|hub_strategy|hub_private_repo|hub_always_push",
            "not push_to_hub or push_to_hub == False|false",
            "{argument} has no effect without push_to_hub",
            "add `push_to_hub: true`, or remove it",
        ),
        warning=True,
    ),
    row(
        "`gradient_checkpointing_kwargs` without `gradient_checkpointing`",
        "the activations are kept, not computed again",
        "transformers trainer.py, _inner_training_loop",
        Case(
            "gradient_checkpointing_kwargs",
            "not gradient_checkpointing or gradient_checkpointing == False|false",
            "{argument} has no effect without gradient_checkpointing",
            "add `gradient_checkpointing: true`, or remove it",
        ),
        warning=True,
    ),
    row(
        "`ignore_data_skip` with restarts",
        "each attempt begins with the first data again",
        "transformers training_args.py",
        Case(
            "ignore_data_skip",
            "spec.restarts, it != False|false",
            "{argument}: a restarted job would train on the same data again",
            "remove it, or restarts",
        ),
        warning=True,
    ),
)
RULES: tuple[Rule[TrainerArguments], ...] = (file_of_arguments, two_values)


FSDP_CONFIG_NAME = "fsdp_config.json"
RESUME_OPTION = "--resume_from_checkpoint"


class HuggingFace(Accelerate):
    """`framework: huggingface`: the keys of `framework: accelerate`, passed on as arguments."""

    name = "huggingface"
    argument_check = "check_huggingface"
    length_arguments = ("max_steps", "num_train_epochs")
    files_of_arguments = ("config",)  # of TRL's scripts
    launchers = ("torchrun", "srun", "accelerate")
    saving = OWN_SCRIPT._replace(
        reason="the script is yours: a TrainerCallback can look for a file at every step",
        resume_option=RESUME_OPTION,
    )
    packages = ("torch", "transformers", "accelerate")

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.spec, diagnostics)
        origins = _origins(task)
        by_file = task.spec.launcher == ACCELERATE.name
        own = own_launch_config(task, options, by_file, diagnostics)
        derived = tuple(_derived(task, options, divides(own)))
        _refuse_arguments(task, origins, derived, diagnostics)
        known, refused = table("huggingface", task.spec), {*origins, *_INSTEAD}
        check_arguments(task.spec, diagnostics, known, refused, dashes_matter=False)
        refuse_variables(task.spec, _VARIABLES, diagnostics)
        check_division(task, options, diagnostics)
        files = list(deepspeed_file(task, options, diagnostics, provenance))
        arguments = TrainerArguments.of(task, files)
        check_rules(RULES, arguments, diagnostics)
        check_rules(SILENT_RULES, arguments.given, diagnostics)
        if script is None:
            return None
        if options.fsdp:
            files.append(ConfigFile(FSDP_CONFIG_NAME, json_text(trainer_config(options.fsdp))))
        if by_file:
            files.append(launch_file(task, None, own))
        return Program(
            (script, *arguments_of(task.spec), *derived),
            is_python=True,
            files=tuple(files),
            environment=(extensions_folder(),) if options.uses_deepspeed else (),
            origins=origins,
        )


def _derived(task: Task, options: Options, is_divided: bool) -> Iterator[Value]:
    """The arguments that follow from the spec; `is_divided`: its accelerate_config shards."""
    spec = task.spec
    if samples := task.samples:
        yield from ("--per_device_train_batch_size", str(samples.micro))
        yield from ("--gradient_accumulation_steps", str(samples.accumulation))
    if precision := spec.precision:  # TRL's scripts use bf16 unless they are told not to
        yield from (f"--{precision}", "True") if precision != "fp32" else ("--bf16", "False")
    if spec.checkpoints:
        yield from ("--output_dir", folder_on_the_node(spec.checkpoints.path))
    if options.uses_deepspeed:
        yield from ("--deepspeed", joined(JOB_DIR, "/", CONFIG_NAME))
    elif options.fsdp:
        yield from ("--fsdp", trainer_option(options.fsdp))
        yield from ("--fsdp_config", joined(JOB_DIR, "/", FSDP_CONFIG_NAME))
        if options.fsdp.activation_checkpointing:  # True in TRL; the Trainer refuses both
            yield from ("--gradient_checkpointing", "False")
    elif not task.shape.gpus_per_node and not is_divided:  # every rank would train alone
        yield from ("--use_cpu", "True")


def _refuse_arguments(
    task: Task, origins: Mapping[str, str], derived: tuple[Value, ...], diagnostics: Diagnostics
) -> None:
    """Refuse arguments that are derived, or would be if the spec had their keys."""
    for position, name in argument_names(task.spec):
        key = argument_key(name)
        if key in _INSTEAD and f"--{key}" not in derived:
            what = f"{name} is derived from {origins[key]}, which the spec does not have"
            diagnostics.problem(("args", position), what, f"write {_INSTEAD[key]} in its place")
        elif key in origins:
            refuse_derived(position, name, origins[key], diagnostics)


_INSTEAD = {
    "bf16": "precision: bf16",
    "fp16": "precision: fp16",
    "deepspeed": "ds_config: and the file's name, or zero: {stage: 2}",
    "fsdp": "fsdp: {}",
    "fsdp_config": "fsdp: {}",
}
# The Trainer's Accelerator reads them, also without an argument for it.
_VARIABLES = {
    "ACCELERATE_MIXED_PRECISION": "precision",
    "ACCELERATE_USE_DEEPSPEED": "zero and ds_config",
    "ACCELERATE_USE_FSDP": "the key fsdp",
}
_BATCH = "batch"
_ORIGINS = {
    "bf16": "precision",
    "fp16": "precision",
    "deepspeed": "zero and ds_config",
    "fsdp": "the key fsdp",
    "fsdp_config": "the key fsdp",
    "use_cpu": "the number of GPUs",
    "no_cuda": "the number of GPUs",
    "local_rank": "the launcher, which sets LOCAL_RANK",
}
_OF_BATCH = (
    *("per_device_train_batch_size", "per_gpu_train_batch_size", "gradient_accumulation_steps"),
    "auto_find_batch_size",
)


def _origins(task: Task) -> dict[str, str]:
    """The derived arguments, and the key of the spec that each comes from."""
    origins = dict(_ORIGINS)
    if task.spec.batch:
        origins |= dict.fromkeys(_OF_BATCH, _BATCH)
    assert isinstance(task.options, Options)
    if task.options.fsdp and task.options.fsdp.activation_checkpointing:
        names = ("gradient_checkpointing", "activation_checkpointing")
        origins |= dict.fromkeys(names, "fsdp.activation_checkpointing")
    if task.spec.checkpoints:
        origins["output_dir"] = "checkpoints.path"
        origins["resume_from_checkpoint"] = "the newest checkpoint in checkpoints.path"
    return origins
