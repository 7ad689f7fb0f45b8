"""What a rule about fairseq looks at: the spec's arguments by fairseq's own names.

Knows how both programs' arguments are written; it must not know what any of them means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clusterjobs.counted import counted
from clusterjobs.errors import nearest
from clusterjobs.frameworks.arguments import Argument, given_arguments
from clusterjobs.frameworks.base import Task
from clusterjobs.frameworks.fairseq.settings import Settings, argument_keys
from clusterjobs.frameworks.flags import table, text_fits
from clusterjobs.frameworks.rules import Finding, GivenArguments, rule
from clusterjobs.spec.references import has_variable


@dataclass(frozen=True)
class Given(GivenArguments):
    """A spec's arguments by the last part of their names, and fairseq's settings."""

    settings: Settings

    @property
    def is_hydra(self) -> bool:
        """Whether the arguments are hydra's overrides."""
        return self.settings.cli == "fairseq-hydra-train"

    @property
    def is_complete(self) -> bool:
        """Whether no config file of the user's has further settings."""
        return self.settings.config_name is None

    def written(self, group: str, key: str) -> str:
        """A setting as it is written in `args`: max-update, or optimization.max_update."""
        return f"{group}.{key}" if self.is_hydra else key.replace("_", "-")


def given_of(task: Task, settings: Settings) -> Given:
    """What the spec of a task gives."""
    is_hydra = settings.cli == "fairseq-hydra-train"
    overrides = _overrides(task) if is_hydra else given_arguments(task.experiment)
    values = {one.position: one for one in overrides}
    found = {
        key: values[position]
        for position, _, key in argument_keys(task.experiment)
        if position in values
    }
    return Given(task, found, settings)


def _overrides(task: Task) -> Iterator[Argument]:
    """hydra's overrides: `optimization.lr: [1e-4]`, or the text `optimization.lr=[1e-4]`."""
    arguments = task.experiment.args
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            text = f"[{','.join(value)}]" if isinstance(value, tuple) else text
            yield Argument(name, name, (text,))
        return
    for index, word in enumerate(arguments):
        name, equals, text = word.partition("=")
        yield Argument(index, name, (text,) if equals else ())


# ------------------------------------------------------------------ argument rules
#
# Rules about fairseq's arguments: their form, names that fairseq lacks, and the batch.
#
# Source: fairseq 0.12.


# ------------------------------------------------------------------ values


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
            joined = ",".join(argument.values)
            yield given.finding(key, what, f'write {argument.name}: "{joined}"')


@rule(
    "`optimization.lr: 6e-4`, which is a list for fairseq-hydra-train",
    "hydra refuses the override",
    "fairseq/dataclass/configs.py",
)
def scalars_of_hydra(given: Given) -> Iterator[Finding]:
    for argument in given.arguments.values() if given.is_hydra else ():
        name, text = argument.name.lstrip("+~"), "".join(argument.values)
        is_list = table("fairseq-hydra-train").types.get(name) == "list"
        if is_list and not text.startswith(("[", "$", "'", "\0", "null")):
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


# ------------------------------------------------------------------ batch


@rule(
    "`max-tokens` beside `batch` that is smaller than a micro batch",
    "it makes smaller batches: 8 became 2",
    "fairseq/data/data_utils.py, batch_by_size",
)
def tokens_below_the_batch(given: Given) -> Iterator[Finding]:
    tokens, model, samples = (
        given.number("max_tokens"),
        given.task.experiment.model,
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


@rule(
    "`max-tokens` beside `batch`, with sentences of unknown length",
    "the smaller of both counts: the global batch is not that of the spec",
    "fairseq/data/data_utils.py, batch_by_size",
    warning=True,
)
def tokens_beside_the_batch(given: Given) -> Iterator[Finding]:
    experiment = given.task.experiment
    if given.has("max_tokens") and experiment.batch and experiment.model is None:
        what = "makes batches smaller than batch.micro where sentences are long"
        yield given.finding("max_tokens", what, "remove it, or batch")


@rule(
    "`max-positions` below the sequence length",
    "it refuses longer samples",
    "fairseq/data/data_utils.py, filter_by_size",
)
def positions(given: Given) -> Iterator[Finding]:
    most, model = given.number("max_positions"), given.task.experiment.model
    if most is not None and model and most < model.sequence:
        what = f"{most:g} positions, and sequences of {model.sequence} tokens"
        yield given.finding("max_positions", what, f"{model.sequence} or more, or remove it")


ARGUMENT_RULES = (
    lists_of_fairseq_train,
    scalars_of_hydra,
    unknown_choices,
    tokens_below_the_batch,
    tokens_beside_the_batch,
    positions,
)


# ------------------------------------------------------------------ training rules
#
# Rules about fairseq's arguments: optimizer, schedule, sharding, checkpoints.
#
# Source: fairseq 0.12.


# ------------------------------------------------------------------ optimizer and schedule


@rule("no `optimizer`", "it fails: optimizer is required", "fairseq/optim/__init__.py")
def no_optimizer(given: Given) -> Iterator[Finding]:
    if given.is_complete and not given.has("optimizer"):
        yield Finding(("args",), "optimizer is missing", "add `optimizer: adam` to args")


@rule("no `lr`", "it trains with 0.25", "fairseq/dataclass/configs.py", warning=True)
def no_learning_rate(given: Given) -> Iterator[Finding]:
    if given.is_complete and not given.has("lr"):
        name = given.written("optimization", "lr")
        value = "[5e-4]" if given.is_hydra else "5e-4"
        what = "lr is missing: fairseq's default is 0.25"
        yield Finding(("args",), what, f"add `{name}: {value}` to args")


@rule(
    "`polynomial_decay` without `max-update` and `total-num-update`",
    "it asserts that the decay has a length",
    "fairseq/optim/lr_scheduler/polynomial_decay_schedule.py",
)
def decay_without_end(given: Given) -> Iterator[Finding]:
    ends = ("max_update", "total_num_update")
    is_chosen = given.text("lr_scheduler") == "polynomial_decay"
    if is_chosen and given.is_complete and not any(given.has(key) for key in ends):
        name = given.written("optimization", "max_update")
        what = "polynomial_decay needs the number of updates"
        yield given.finding("lr_scheduler", what, f"add `{name}: 500000` to args")


@rule(
    "a decay that ends before the training: `total-num-update` below `max-update`",
    "it trains on with the last learning rate, 0",
    "fairseq/optim/lr_scheduler/polynomial_decay_schedule.py",
    warning=True,
)
def decay_before_the_end(given: Given) -> Iterator[Finding]:
    total, updates = given.number("total_num_update"), given.number("max_update")
    if total is not None and updates is not None and total < updates:
        what = f"the learning rate is at its end after {total:g} of {updates:g} updates"
        yield given.finding("total_num_update", what, f"{updates:g}, or remove it")


@rule(
    "`warmup-updates` as long as the training",
    "the learning rate never reaches lr",
    "fairseq/optim/lr_scheduler",
    warning=True,
)
def warmup_without_end(given: Given) -> Iterator[Finding]:
    warmup, updates = given.number("warmup_updates"), given.number("max_update")
    if warmup is not None and updates is not None and 0 < updates <= warmup:
        what = f"a warm-up of {warmup:g} updates, and the training has {updates:g}"
        yield given.finding("warmup_updates", what, "a shorter warm-up")


# ------------------------------------------------------------------ precision and sharding


@rule(
    "`ddp-backend: fully_sharded` with bf16",
    "it raises ValueError",
    "fairseq/trainer.py",
)
def sharded_bf16(given: Given) -> Iterator[Finding]:
    is_bf16 = given.task.experiment.precision == "bf16"
    if given.text("ddp_backend") == "fully_sharded" and is_bf16:
        what = "fairseq does not shard in bf16"
        yield given.finding("ddp_backend", what, "precision: fp16, or another ddp-backend")


@rule(
    "`cpu-offload` without `ddp-backend: fully_sharded`",
    "it raises ValueError",
    "fairseq/trainer.py",
)
def offload_without_sharding(given: Given) -> Iterator[Finding]:
    is_asked = given.has("cpu_offload") and given.text("cpu_offload") != "false"
    if is_asked and given.is_complete and given.text("ddp_backend") != "fully_sharded":
        name = given.written("distributed_training", "ddp_backend")
        what = "fairseq offloads only what is sharded"
        yield given.finding("cpu_offload", what, f"add `{name}: fully_sharded`, or remove it")


# ------------------------------------------------------------------ checkpoints


@rule(
    "`no-save` or `no-last-checkpoints` beside `checkpoints`",
    "there is nothing to resume from",
    "fairseq/checkpoint_utils.py",
    warning=True,
)
def nothing_is_saved(given: Given) -> Iterator[Finding]:
    for key in ("no_save", "no_last_checkpoints"):
        if given.task.experiment.checkpoints and given.has(key) and given.text(key) != "false":
            what = "no checkpoint_last.pt is written, so that no job can resume"
            yield given.finding(key, what, "remove it, or checkpoints")


@rule(
    "`keep-interval-updates` without `save-interval-updates`",
    "it is ignored",
    "fairseq/checkpoint_utils.py",
    warning=True,
)
def nothing_to_keep(given: Given) -> Iterator[Finding]:
    name = "save_interval_updates"
    if given.has("keep_interval_updates") and given.is_complete and not given.has(name):
        what = "has no effect: checkpoints are saved per epoch"
        hint = f"add `{given.written('checkpoint', name)}: 1000`"
        yield given.finding("keep_interval_updates", what, hint)


@rule(
    "`reset-optimizer`, `reset-lr-scheduler` or another reset with `restarts`",
    "each attempt resets it again, when it resumes",
    "fairseq/checkpoint_utils.py",
    warning=True,
)
def reset_at_every_restart(given: Given) -> Iterator[Finding]:
    for what in ("optimizer", "lr_scheduler", "dataloader", "meters"):
        key = f"reset_{what}"
        if given.task.experiment.restarts and given.has(key) and given.text(key) != "false":
            said = "resets it after each restart, too"
            yield given.finding(key, said, "finetune-from-model resets once, at the start")


TRAINING_RULES = (
    no_optimizer,
    no_learning_rate,
    decay_without_end,
    decay_before_the_end,
    warmup_without_end,
    sharded_bf16,
    offload_without_sharding,
    nothing_is_saved,
    nothing_to_keep,
    reset_at_every_restart,
)


# ------------------------------------------------------------------ override checks
#
# The overrides of fairseq-hydra-train compared with the keys of fairseq's config.
#
# hydra refuses a key that the config lacks, and a value of another type. Source: fairseq 0.12, its
# dataclasses; hydra 1.3.


_NOT_COMPARED = ("-", "hydra.", "model.", "+", "~")  # hydra's own; keys that are added or removed
_WISHES = {"integer": "an integer", "number": "a number", "boolean": "true or false"}
_EXAMPLES = {"integer": "1000", "number": "0.1", "boolean": "true"}


def override_findings(given: Given) -> Iterator[Finding]:
    """Overrides that fairseq's own config does not take."""
    known = table("fairseq-hydra-train").types
    for argument in given.arguments.values():
        name = argument.name
        if name.startswith(_NOT_COMPARED) or "@" in name or name == "model":
            continue
        if name not in known:
            yield from _unknown(argument)
        elif isinstance(known[name], str) and not _fits(str(known[name]), argument):
            kind = str(known[name])
            what = f"{name}: {' '.join(argument.values)}, but fairseq expects {_WISHES[kind]}"
            yield Finding(argument.path, what, f"write for example {_EXAMPLES[kind]}")


def _unknown(argument: Argument) -> Iterator[Finding]:
    """A key that looks like one of fairseq's, or that lacks its group."""
    known = table("fairseq-hydra-train")
    name = argument.name.replace("-", "_")
    whole = [key for key in known.types if key.endswith(f".{name}")]
    whole.sort(key=lambda key: not key.startswith("optimization."))  # has the usual lr, max_update
    near = whole[0] if whole else known.nearest(argument.name)
    if near:
        what = f"fairseq-hydra-train has no key {argument.name}"
        yield Finding(argument.path, what, f"did you mean {near}?", warning=True)


def _fits(kind: str, argument: Argument) -> bool:
    text = argument.values[0] if argument.values else ""
    if kind not in _WISHES or text == "null" or "${" in text or has_variable(text):
        return True
    if kind == "boolean":
        return text.lower() in ("true", "false", "yes", "no", "on", "off", "1", "0")
    return text_fits(kind, text)
