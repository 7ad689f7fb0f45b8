"""Rules about the arguments of fairseq-train and of fairseq-hydra-train, by fairseq's own names.

Source: fairseq 0.12; hydra 1.3.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clusterjobs.errors import counted, nearest
from clusterjobs.frameworks.arguments import Argument, given_arguments
from clusterjobs.frameworks.base import Task
from clusterjobs.frameworks.fairseq.settings import Settings, argument_keys
from clusterjobs.frameworks.flags import Table, table, text_fits, unknown
from clusterjobs.frameworks.rules import Case, Finding, GivenArguments, Rule, row, rule
from clusterjobs.text import Text, join, joined, partition, show


@dataclass(frozen=True)
class Given(GivenArguments):
    """A spec's arguments by the last part of their names, and fairseq's settings."""

    settings: Settings

    @property
    def is_hydra(self) -> bool:
        """Whether the arguments are hydra's overrides."""
        return self.settings.cli == "fairseq-hydra-train"

    def part(self, name: str) -> Any:
        """The parts of the spec and of the plan, and fairseq's settings."""
        return self.settings if name == "settings" else super().part(name)


def given_of(task: Task, settings: Settings) -> Given:
    """What the spec of a task gives."""
    is_hydra = settings.cli == "fairseq-hydra-train"
    overrides = _overrides(task) if is_hydra else given_arguments(task.spec)
    values = {one.position: one for one in overrides}
    found = {
        key: values[position] for position, _, key in argument_keys(task.spec) if position in values
    }
    return Given(task, found, settings)


def _overrides(task: Task) -> Iterator[Argument]:
    """hydra's overrides: `optimization.lr: [1e-4]`, or the text `optimization.lr=[1e-4]`."""
    arguments = task.spec.args
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            if isinstance(value, tuple):
                value = joined("[", join(",", value), "]")
            text = str(value).lower() if isinstance(value, bool) else value
            yield Argument(name, name, (text,))
        return
    for index, word in enumerate(arguments):
        before, equals, after = partition(word, "=")
        yield Argument(index, show(before), (after,) if equals else ())


# ------------------------------------------------------------------ form, names and batch


@rule(
    "`update-freq` or `lr` as a list for fairseq-train",
    "its parser takes one text, with commas",
    "fairseq/dataclass/utils.py, gen_parser_from_dataclass",
)
def lists_of_fairseq_train(given: Given) -> Iterator[Finding]:
    for key in () if given.is_hydra else ("update_freq", "lr"):
        argument = given.arguments.get(key)
        if argument and len(argument.values) > 1:
            what = f"fairseq-train takes one text for {argument.name}, with commas"
            text = ",".join(argument.texts)
            yield given.finding(key, what, f'write {argument.name}: "{text}"')


@rule(
    "`optimization.lr: 6e-4`, which is a list for fairseq-hydra-train",
    "hydra refuses the override",
    "fairseq/dataclass/configs.py",
)
def scalars_of_hydra(given: Given) -> Iterator[Finding]:
    for argument in given.arguments.values() if given.is_hydra else ():
        name, text = argument.name.lstrip("+~"), "".join(argument.texts)
        is_list = table("fairseq-hydra-train").types.get(name) == "list"
        if is_list and not text.startswith(("[", "$", "'", "null")):
            equals = "=" if isinstance(argument.position, int) else ": "
            yield Finding(argument.path, f"{name} is a list", f"write {name}{equals}[{text}]")


@rule(
    "an `arch`, `task` or `criterion` that fairseq does not have",
    "its parser refuses it, unless `user-dir` adds it",
    "fairseq/options.py",
    warning=True,
)
def unknown_choices(given: Given) -> Iterator[Finding]:
    settings, known = given.settings, table("fairseq-train").types
    own_code = given.has("user_dir")
    for key in () if own_code else ("arch", "task", "criterion"):
        name, choices = getattr(settings, key), known[key]
        assert isinstance(choices, list)
        if name is not None and name not in choices:
            near = nearest(name, choices)
            hint = f"did you mean {near}?" if near else "your own: args: {user-dir: /fsx/code/my}"
            what = f"fairseq 0.12 has no {key} {name}"
            yield Finding(("fairseq", key), what, hint)


@rule(
    "`max-tokens` beside `batch` that is smaller than a micro batch",
    "it makes smaller batches: 8 became 2",
    "fairseq/data/data_utils.py, batch_by_size",
)
def tokens_below_the_batch(given: Given) -> Iterator[Finding]:
    tokens, model, samples = (
        given.number("max_tokens"),
        given.task.spec.model,
        given.task.samples,
    )
    if tokens is None or model is None or samples is None:
        return
    if tokens < samples.micro * model.sequence:
        fit = int(tokens // model.sequence)
        samples_fit = f"only {counted(fit, 'sample')} of {model.sequence} tokens"
        what = f"{samples_fit}, and batch.micro is {samples.micro}"
        hint = f"{samples.micro * model.sequence} or more, or remove it"
        yield given.finding("max_tokens", what, hint)


ARGUMENT_RULES: tuple[Rule[Given], ...] = (
    lists_of_fairseq_train,
    scalars_of_hydra,
    unknown_choices,
    tokens_below_the_batch,
    row(
        "`max-tokens` beside `batch`, with sentences of unknown length",
        "the smaller of both counts: the global batch is not that of the spec",
        "fairseq/data/data_utils.py, batch_by_size",
        Case(
            "max_tokens",
            "spec.batch, not spec.model",
            "makes batches smaller than batch.micro where sentences are long",
            "remove it, or batch",
        ),
        warning=True,
    ),
    row(
        "`max-positions` below the sequence length",
        "it refuses longer samples",
        "fairseq/data/data_utils.py, filter_by_size",
        Case(
            "max_positions",
            "it < model.sequence",
            "{it:g} positions, and sequences of {model.sequence} tokens",
            "{model.sequence} or more, or remove it",
        ),
    ),
)


# ------------------------------------------------------------------ training


TRAINING_RULES: tuple[Rule[Given], ...] = (
    row(
        "no `optimizer`",
        "it fails: optimizer is required",
        "fairseq/optim/__init__.py",
        Case(
            ("args",),
            "not optimizer, not settings.config_name",
            "optimizer is missing",
            "add `optimizer: adam` to args",
        ),
    ),
    row(
        "no `lr`",
        "it trains with 0.25",
        "fairseq/dataclass/configs.py",
        Case(
            ("args",),
            "not lr, not settings.config_name, settings.cli == fairseq-hydra-train",
            "lr is missing: fairseq's default is 0.25",
            "add `optimization.lr: [5e-4]` to args",
        ),
        Case(
            ("args",),
            "not lr, not settings.config_name, settings.cli == fairseq-train",
            "lr is missing: fairseq's default is 0.25",
            "add `lr: 5e-4` to args",
        ),
        warning=True,
    ),
    row(
        "`polynomial_decay` without `max-update` and `total-num-update`",
        "it asserts that the decay has a length",
        "fairseq/optim/lr_scheduler/polynomial_decay_schedule.py",
        Case(
            "lr_scheduler",
            "it == polynomial_decay, not max_update, not total_num_update, not "
            "settings.config_name, settings.cli == fairseq-hydra-train",
            "polynomial_decay needs the number of updates",
            "add `optimization.max_update: 500000` to args",
        ),
        Case(
            "lr_scheduler",
            "it == polynomial_decay, not max_update, not total_num_update, not "
            "settings.config_name, settings.cli == fairseq-train",
            "polynomial_decay needs the number of updates",
            "add `max-update: 500000` to args",
        ),
    ),
    row(
        "a decay that ends before the training: `total-num-update` below `max-update`",
        "it trains on with the last learning rate, 0",
        "fairseq/optim/lr_scheduler/polynomial_decay_schedule.py",
        Case(
            "total_num_update",
            "it < max_update",
            "the learning rate is at its end after {it:g} of {max_update:g} updates",
            "{max_update:g}, or remove it",
        ),
        warning=True,
    ),
    row(
        "`max-update: 1`, or `cpu` on nodes with GPUs",
        "it ends after one update, or trains on the CPUs",
        "fairseq_cli/train.py",
        Case("max_update", "it == 1", "the training ends after one update", "remove it"),
        Case(
            "cpu",
            "shape.gpus_per_node, it != false|False",
            "fairseq uses none of the node's GPUs",
            "remove it, or write gpus_per_node: 0",
        ),
        warning=True,
    ),
    row(
        "`warmup-updates` as long as the training",
        "the learning rate never reaches lr",
        "fairseq/optim/lr_scheduler",
        Case(
            "warmup_updates",
            "it >= max_update, max_update > 0",
            "a warm-up of {it:g} updates, and the training has {max_update:g}",
            "a shorter warm-up",
        ),
        warning=True,
    ),
    row(
        "`ddp-backend: fully_sharded` with bf16",
        "it raises ValueError",
        "fairseq/trainer.py",
        Case(
            "ddp_backend",
            "it == fully_sharded, spec.precision == bf16",
            "fairseq does not shard in bf16",
            "precision: fp16, or another ddp-backend",
        ),
    ),
    row(
        "`cpu-offload` without `ddp-backend: fully_sharded`",
        "it raises ValueError",
        "fairseq/trainer.py",
        Case(
            "cpu_offload",
            "it != false, ddp_backend != fully_sharded, not settings.config_name, settings.cli == "
            "fairseq-hydra-train",
            "fairseq offloads only what is sharded",
            "add `distributed_training.ddp_backend: fully_sharded`, or remove it",
        ),
        Case(
            "cpu_offload",
            "it != false, ddp_backend != fully_sharded, not settings.config_name, settings.cli == "
            "fairseq-train",
            "fairseq offloads only what is sharded",
            "add `ddp-backend: fully_sharded`, or remove it",
        ),
    ),
    row(
        "`no-save` or `no-last-checkpoints` beside `checkpoints`",
        "there is nothing to resume from",
        "fairseq/checkpoint_utils.py",
        Case(
            "no_save|no_last_checkpoints",
            "it != false, spec.checkpoints",
            "no checkpoint_last.pt is written, so that no job can resume",
            "remove it, or checkpoints",
        ),
        warning=True,
    ),
    row(
        "`keep-interval-updates` without `save-interval-updates`",
        "it is ignored",
        "fairseq/checkpoint_utils.py",
        Case(
            "keep_interval_updates",
            "not save_interval_updates, not settings.config_name, settings.cli == "
            "fairseq-hydra-train",
            "has no effect: checkpoints are saved per epoch",
            "add `checkpoint.save_interval_updates: 1000`",
        ),
        Case(
            "keep_interval_updates",
            "not save_interval_updates, not settings.config_name, settings.cli == fairseq-train",
            "has no effect: checkpoints are saved per epoch",
            "add `save-interval-updates: 1000`",
        ),
        warning=True,
    ),
    row(
        "`save-interval-updates` or `log-interval` longer than the training",
        "it saves at the end of an epoch alone, or logs no step",
        "fairseq_cli/train.py, validate_and_save",
        Case(
            "save_interval_updates|log_interval",
            "it > max_update, max_update > 0",
            "longer than the training, {max_update:g} updates",
            "a smaller number",
        ),
        warning=True,
    ),
    row(
        "`min-lr` above `lr` with the schedule cosine",
        "it lowers min-lr to lr: the learning rate never changes",
        "fairseq/optim/lr_scheduler/cosine_lr_scheduler.py",
        Case(
            "min_lr",
            "it > lr, lr_scheduler == cosine",
            "above lr, so that the learning rate never changes",
            "a smaller number",
        ),
        warning=True,
    ),
    row(
        "`patience` or `best-checkpoint-metric` with `disable-validation`",
        "there is no loss to compare: it never stops early, and no checkpoint is the best",
        "fairseq_cli/train.py, should_stop_early",
        Case(
            "patience|best_checkpoint_metric|keep_best_checkpoints",
            "disable_validation, disable_validation != false",
            "{argument} has no effect: nothing is validated",
            "remove it, or disable-validation",
        ),
        warning=True,
    ),
    row(
        "settings of the loss scale without fp16",
        "no loss is scaled",
        "fairseq/optim/fp16_optimizer.py",
        Case(
            "fp16_init_scale|fp16_scale_window|fp16_scale_tolerance",
            "spec.precision != fp16, not fp16, not memory_efficient_fp16, not settings.config_name",
            "{argument} is not read: only fp16 scales the loss",
            "add precision: fp16, or remove it",
        ),
        warning=True,
    ),
    row(
        "`reset-optimizer`, `reset-lr-scheduler` or another reset with `restarts`",
        "each attempt resets it again, when it resumes",
        "fairseq/checkpoint_utils.py",
        Case(
            "reset_optimizer|reset_lr_scheduler|reset_dataloader|reset_meters",
            "it != false, spec.restarts",
            "resets it after each restart, too",
            "finetune-from-model resets once, at the start",
        ),
        warning=True,
    ),
)


# ------------------------------------------------------------------ overrides of hydra
# hydra refuses a key that fairseq's config lacks, and a value of another type.


_NOT_COMPARED = ("-", "hydra.", "model.", "+", "~")  # hydra's own; keys that are added or removed
_WISHES = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
_EXAMPLES = {"integer": "1000", "number": "0.1", "boolean": "true"}


def override_findings(given: Given) -> Iterator[Finding]:
    """Overrides that fairseq's own config does not take."""
    known = table("fairseq-hydra-train", given.task.spec)
    for argument in given.arguments.values():
        name, kind = argument.name, known.types.get(argument.name)
        if name.startswith(_NOT_COMPARED) or "@" in name or name == "model" or known.accepts(name):
            continue
        if kind is None:
            yield _unknown(argument, known)
        elif isinstance(kind, str) and not _fits(kind, argument):
            what = f"{name}: {' '.join(argument.texts)}, but {known.label} expects {_WISHES[kind]}"
            yield Finding(argument.path, what, f"write for example {_EXAMPLES[kind]}")


def _unknown(argument: Argument, known: Table) -> Finding:
    """A key that looks like one of fairseq's, that lacks its group, or that may be newer."""
    name = argument.name.replace("-", "_")
    whole = [key for key in known.types if key.endswith(f".{name}")]
    whole.sort(key=lambda key: not key.startswith("optimization."))  # has the usual lr, max_update
    if not whole:
        return unknown(argument.path, argument.name, known)
    what = f"{known.label} has no key {argument.name}"
    return Finding(argument.path, what, f"did you mean {whole[0]}?", warning=True)


def _fits(kind: str, argument: Argument) -> bool:
    text = argument.values[0] if argument.values else ""
    if isinstance(text, Text) or kind not in _WISHES or text == "null" or "${" in text:
        return True
    if kind == "boolean":
        return text.lower() in ("true", "false", "yes", "no", "on", "off", "1", "0")
    return text_fits(kind, text)
