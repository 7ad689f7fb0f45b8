"""Rules about fairseq's arguments: their form, names that fairseq lacks, and the batch.

Source: fairseq 0.12.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.counted import counted
from clusterjobs.errors import nearest
from clusterjobs.frameworks.fairseq.given import Given
from clusterjobs.frameworks.flags import table
from clusterjobs.frameworks.rules import Finding, rule

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
