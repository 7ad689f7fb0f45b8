"""Rules about Megatron's arguments: positions, precision, recomputation, tokenizer.

The files of the sources are in megatron/ of Megatron-DeepSpeed, megatron/training/ of Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.counted import counted
from clusterjobs.frameworks.rules import Finding, Rule, rule
from clusterjobs.frameworks.rules import GivenArguments as Given

_VALIDATE = "arguments.py, validate_args"


@rule("`max-position-embeddings` below the sequence length", "it asserts that it is not", _VALIDATE)
def positions(given: Given) -> Iterator[Finding]:
    most, model = given.number("max_position_embeddings"), given.task.experiment.model
    if most is not None and model and most < model.sequence:
        what = f"{most:g} positions, and sequences of {model.sequence} tokens"
        hint = f"{model.sequence} or more, or remove it: then it is the sequence length"
        yield given.finding("max_position_embeddings", what, hint)


@rule(
    "`fp16-lm-cross-entropy` without fp16, `fp32-residual-connection` without fp16 or bf16",
    "it asserts the precision",
    _VALIDATE,
)
def precision_of_flags(given: Given) -> Iterator[Finding]:
    precision = given.task.experiment.precision
    needed = {"fp16_lm_cross_entropy": ("fp16",), "fp32_residual_connection": ("fp16", "bf16")}
    for name, precisions in needed.items():
        if given.has(name) and precision not in precisions:
            what = f"needs precision: {' or '.join(precisions)}"
            yield given.finding(name, what, f"add precision: {precisions[0]}, or remove it")


@rule(
    "`recompute-granularity: selective` with `recompute-method`",
    "it asserts that there is none",
    _VALIDATE,
)
def selective_recomputation(given: Given) -> Iterator[Finding]:
    is_selective = given.has("recompute_activations")
    is_selective |= given.text("recompute_granularity") == "selective"
    if is_selective and given.has("recompute_method"):
        what = "selective recomputation has no method"
        yield given.finding("recompute_method", what, "remove it, or recompute-granularity: full")


@rule(
    "`distribute-saved-activations` without tensor ranks, full granularity and a method",
    "it asserts all three",
    _VALIDATE,
)
def distributed_activations(given: Given) -> Iterator[Finding]:
    is_full = given.text("recompute_granularity") == "full" and given.has("recompute_method")
    is_possible = is_full and given.task.parallelism.tensor > 1
    if given.has("distribute_saved_activations") and not is_possible:
        what = "needs tensor ranks, recompute-granularity: full and a recompute-method"
        yield given.finding("distribute_saved_activations", what, "add them, or remove it")


_NEEDED_BY_TOKENIZER = {
    "GPT2BPETokenizer": ("vocab_file", "merge_file"),
    "BertWordPieceLowerCase": ("vocab_file",),
    "BertWordPieceCase": ("vocab_file",),
    "SentencePieceTokenizer": ("tokenizer_model",),
    "GPTSentencePieceTokenizer": ("tokenizer_model",),
    "HFTokenizer": ("tokenizer_model",),
    "HuggingFaceTokenizer": ("tokenizer_model",),
    "Llama2Tokenizer": ("tokenizer_model",),
    "TikTokenizer": ("tokenizer_model",),
}


@rule(
    "a `tokenizer-type` without its files",
    "it asserts vocab-file, merge-file or tokenizer-model",
    "tokenizer/tokenizer.py",
)
def files_of_the_tokenizer(given: Given) -> Iterator[Finding]:
    kind = given.text("tokenizer_type") or ""
    for name in _NEEDED_BY_TOKENIZER.get(kind, ()):
        if not given.has(name):
            flag = name.replace("_", "-")
            what = f"{kind} needs {flag}"
            yield given.finding("tokenizer_type", what, f"add `{flag}: /fsx/...` to args")


RULES: tuple[Rule[Given], ...] = (
    positions,
    precision_of_flags,
    selective_recomputation,
    distributed_activations,
    files_of_the_tokenizer,
)


# ------------------------------------------------------------------ schedule rules
#
# Rules about Megatron's arguments: how long it trains, learning rate, batch, checkpoints.
#
# The files of the sources are in megatron/ of Megatron-DeepSpeed, megatron/training/ of Megatron-
# LM.


_OF_TASKS = ("task", "epochs")  # tasks/main.py: its epochs give the length, some need no lr

_SCHEDULER = "optimizer_param_scheduler.py"
_TRAINING = "training.py, get_optimizer_param_scheduler"


@rule("`train-iters` and `train-samples` together", "it asserts that one is missing", _VALIDATE)
def iterations_and_samples(given: Given) -> Iterator[Finding]:
    if given.number("train_iters") and given.number("train_samples"):
        what = "train-samples and train-iters are both given"
        yield given.finding("train_samples", what, "remove train-iters, or train-samples")


@rule("neither `train-iters` nor `train-samples`", "it raises an exception", _TRAINING)
def no_length(given: Given) -> Iterator[Finding]:
    alone = ("train_iters", "train_samples", "skip_train", "inference", *_OF_TASKS)
    if not any(given.has(name) for name in alone):
        what = "train-iters is missing: how long to train"
        yield Finding(
            ("args", "train-iters"), what, "add `train-iters: 500000` or train-samples to args"
        )


_OF_SAMPLES = ("lr_decay_samples", "lr_warmup_samples", "rampup_batch_size")
_OF_ITERATIONS = ("lr_decay_iters", "lr_warmup_iters")


@rule(
    "`train-iters` with `lr-decay-samples`, `lr-warmup-samples` or `rampup-batch-size`",
    "it asserts iteration-based settings",
    _VALIDATE,
)
def samples_beside_iterations(given: Given) -> Iterator[Finding]:
    for name in _OF_SAMPLES if given.number("train_iters") else ():
        if given.has(name) and given.number(name) != 0:
            flag = given.arguments[name].name
            what = f"{flag} counts samples, and train-iters iterations"
            yield given.finding(name, what, f"train-samples: with it, or {_in_iterations(name)}")


def _in_iterations(name: str) -> str:
    return "no ramp" if name == "rampup_batch_size" else name[:-8].replace("_", "-") + "-iters"


@rule(
    "`train-samples` with `lr-decay-iters` or `lr-warmup-iters`",
    "it asserts sample-based settings",
    _VALIDATE,
)
def iterations_beside_samples(given: Given) -> Iterator[Finding]:
    for name in _OF_ITERATIONS if given.number("train_samples") else ():
        if given.has(name) and given.number(name) != 0:
            flag = given.arguments[name].name
            what = f"{flag} counts iterations, and train-samples samples"
            instead = name[:-6].replace("_", "-") + "-samples"
            yield given.finding(name, what, f"write {instead}, or train-iters")


@rule("a warm-up given twice, as a fraction and as a number", "it asserts one of them", _VALIDATE)
def warmup_twice(given: Given) -> Iterator[Finding]:
    for name in ("lr_warmup_iters", "lr_warmup_samples"):
        if given.has("lr_warmup_fraction") and given.number(name):
            what = f"{given.arguments[name].name} beside lr-warmup-fraction"
            yield given.finding(name, what, "remove one of them")


@rule(
    "a warm-up that is not shorter than the decay of the learning rate",
    "it asserts lr_warmup_steps < lr_decay_steps",
    _SCHEDULER,
)
def warmup_beyond_decay(given: Given) -> Iterator[Finding]:
    for unit in ("iters", "samples"):
        warmup = given.number(f"lr_warmup_{unit}")
        decay = given.number(f"lr_decay_{unit}") or given.number(f"train_{unit}")
        if warmup and decay and warmup >= decay:
            name = f"lr_warmup_{unit}"
            what = f"a warm-up of {warmup:g} {unit}, and the decay ends after {decay:g}"
            yield given.finding(name, what, "a shorter warm-up, or a later end of the decay")
    fraction = given.number("lr_warmup_fraction")
    if fraction is not None and not 0 <= fraction < 1:
        what = f"lr-warmup-fraction: {fraction:g} is not a fraction of the decay"
        yield given.finding("lr_warmup_fraction", what, "write for example 0.01")


@rule("no `lr`", "the optimizer fails: its learning rate is None", "optimizer/__init__.py")
def no_learning_rate(given: Given) -> Iterator[Finding]:
    if not any(given.has(name) for name in ("lr", "inference", *_OF_TASKS)):
        what = "lr is missing: the learning rate"
        yield Finding(("args", "lr"), what, "add `lr: 1.5e-4` to args")


@rule("`min-lr` above `lr`", "it asserts min_lr <= lr", _VALIDATE)
def rates_reversed(given: Given) -> Iterator[Finding]:
    rate, least = given.number("lr"), given.number("min_lr")
    if rate is not None and least is not None and least > rate:
        yield given.finding("min_lr", f"{least:g} is above lr {rate:g}", "a smaller min-lr")


@rule(
    "`weight-decay-incr-style` without start and end, or these without it",
    "it asserts that both or none are given",
    _VALIDATE,
)
def weight_decay_style(given: Given) -> Iterator[Finding]:
    ends = ("start_weight_decay", "end_weight_decay")
    style = given.text("weight_decay_incr_style") or "constant"
    for name in ends:
        if given.has(name) and style == "constant":
            what = "the weight decay is constant: its start and end are not used"
            yield given.finding(name, what, "add `weight-decay-incr-style: linear`, or remove it")
    if style != "constant" and not all(given.has(name) for name in ends):
        what = "start-weight-decay and end-weight-decay are missing"
        yield given.finding("weight_decay_incr_style", what, "add both to args")


@rule(
    "`rampup-batch-size` without three values, or that does not reach the global batch size",
    "it asserts them",
    "microbatches.py",
)
def ramp(given: Given) -> Iterator[Finding]:
    flag, samples = given.arguments.get("rampup_batch_size"), given.task.samples
    if flag is None or samples is None:
        return
    values = [int(word) if word.isdecimal() else None for word in flag.values]
    start, step = (values[0], values[1]) if len(values) == 3 else (None, None)
    all_ranks = samples.micro * given.task.parallelism.data
    hint = f"write rampup-batch-size: [{all_ranks}, {all_ranks}, 300000]"
    if len(values) != 3:
        what = f"{counted(len(values), 'value')}, and three are needed: start, increment, samples"
        yield Finding(flag.path, what, hint)
    elif start and step and (start % all_ranks or step % all_ranks):
        what = f"{start} and {step} are not multiples of micro x data parallel = {all_ranks}"
        yield Finding(flag.path, what, hint)
    elif start and step and (samples.global_ - start) % step:
        what = f"from {start} in steps of {step}, the batch does not reach {samples.global_}"
        yield Finding(flag.path, what, "global - start must be a multiple of the increment")


@rule("`save` or `checkpoints` without `save-interval`", "it asserts save_interval", _VALIDATE)
def save_without_interval(given: Given) -> Iterator[Finding]:
    experiment = given.task.experiment
    if (experiment.checkpoints or given.has("save")) and not given.has("save_interval"):
        yield Finding(
            ("checkpoints",) if experiment.checkpoints else given.path("save"),
            "save-interval is missing: how often a checkpoint is saved",
            "add `save-interval: 1000` (iterations) to args; Megatron asserts it",
        )


@rule(
    "`save-interval` without `checkpoints` or `save`",
    "it trains to the end and saves nothing",
    "training.py, train",
    warning=True,
)
def interval_without_save(given: Given) -> Iterator[Finding]:
    saves = given.task.experiment.checkpoints or given.has("save")
    if given.has("save_interval") and not saves:
        what = "nothing is saved: the spec has no folder for checkpoints"
        yield given.finding("save_interval", what, "add checkpoints: {path: /fsx/checkpoints}")


@rule(
    "`save-interval` longer than the training",
    "it saves at the end alone",
    "training.py, train",
    warning=True,
)
def interval_beyond_the_end(given: Given) -> Iterator[Finding]:
    interval, iterations = given.number("save_interval"), given.number("train_iters")
    if interval and iterations and interval > iterations:
        what = f"longer than the training, {iterations:g} iterations: nothing to resume from"
        yield given.finding(
            "save_interval", what, f"for example save-interval: {iterations // 10:g}"
        )


SCHEDULE_RULES: tuple[Rule[Given], ...] = (
    iterations_and_samples,
    no_length,
    samples_beside_iterations,
    iterations_beside_samples,
    warmup_twice,
    warmup_beyond_decay,
    no_learning_rate,
    rates_reversed,
    weight_decay_style,
    ramp,
    save_without_interval,
    interval_without_save,
    interval_beyond_the_end,
)
