"""Rules about the arguments of both Megatrons.

The files of the sources are in megatron/ of Megatron-DeepSpeed, megatron/training/ of Megatron-LM.
"""

from collections.abc import Iterator

from clusterjobs.errors import counted
from clusterjobs.frameworks.rules import Case, Finding, Rule, row, rule
from clusterjobs.frameworks.rules import GivenArguments as Given

_VALIDATE = "arguments.py, validate_args"
_SCHEDULER = "optimizer_param_scheduler.py"

MODEL_RULES: tuple[Rule[Given], ...] = (
    row(
        "`max-position-embeddings` below the sequence length",
        "it asserts that it is not",
        _VALIDATE,
        Case(
            "max_position_embeddings",
            "it < model.sequence",
            "{it:g} positions, and sequences of {model.sequence} tokens",
            "{model.sequence} or more, or remove it: then it is the sequence length",
        ),
    ),
    row(
        "`fp16-lm-cross-entropy` without fp16, `fp32-residual-connection` without fp16 or bf16",
        "it asserts the precision",
        _VALIDATE,
        Case(
            "fp16_lm_cross_entropy",
            "spec.precision != fp16",
            "needs precision: fp16",
            "add precision: fp16, or remove it",
        ),
        Case(
            "fp32_residual_connection",
            "spec.precision != fp16|bf16",
            "needs precision: fp16 or bf16",
            "add precision: fp16, or remove it",
        ),
    ),
    row(
        "`recompute-granularity: selective` with `recompute-method`",
        "it asserts that there is none",
        _VALIDATE,
        Case(
            "recompute_method",
            "recompute_activations or recompute_granularity == selective",
            "selective recomputation has no method",
            "remove it, or recompute-granularity: full",
        ),
    ),
    row(
        "`distribute-saved-activations` without tensor ranks, full granularity and a method",
        "it asserts all three",
        _VALIDATE,
        Case(
            "distribute_saved_activations",
            "recompute_granularity != full or not recompute_method or parallel.tensor <= 1",
            "needs tensor ranks, recompute-granularity: full and a recompute-method",
            "add them, or remove it",
        ),
    ),
    row(
        "a `tokenizer-type` without its files",
        "it asserts vocab-file, merge-file or tokenizer-model",
        "tokenizer/tokenizer.py",
        Case(
            "tokenizer_type",
            "it == GPT2BPETokenizer|BertWordPieceLowerCase|BertWordPieceCase, not vocab_file",
            "{it} needs vocab-file",
            "add `vocab-file: /fsx/...` to args",
        ),
        Case(
            "tokenizer_type",
            "it == GPT2BPETokenizer, not merge_file",
            "{it} needs merge-file",
            "add `merge-file: /fsx/...` to args",
        ),
        Case(
            "tokenizer_type",
            "it == SentencePieceTokenizer|GPTSentencePieceTokenizer|HFTokenizer|"
            "HuggingFaceTokenizer|Llama2Tokenizer|TikTokenizer, not tokenizer_model",
            "{it} needs tokenizer-model",
            "add `tokenizer-model: /fsx/...` to args",
        ),
    ),
)


# ------------------------------------------------------------------ schedule


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


@rule(
    "`rampup-batch-size` without three values, or that does not reach the global batch size",
    "it asserts them",
    "microbatches.py",
)
def ramp(given: Given) -> Iterator[Finding]:
    flag, samples = given.arguments.get("rampup_batch_size"), given.task.samples
    if flag is None or samples is None:
        return
    values = [int(word) if word.isdecimal() else None for word in flag.texts]
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


_COUNTS_SAMPLES = "{argument} counts samples, and train-iters iterations"
_COUNTS_ITERATIONS = "{argument} counts iterations, and train-samples samples"

SCHEDULE_RULES: tuple[Rule[Given], ...] = (
    row(
        "`train-iters` and `train-samples` together",
        "it asserts that one is missing",
        _VALIDATE,
        Case(
            "train_samples",
            "it > 0, train_iters > 0",
            "train-samples and train-iters are both given",
            "remove train-iters, or train-samples",
        ),
    ),
    row(
        "neither `train-iters` nor `train-samples`",
        "it raises an exception",
        "training.py, get_optimizer_param_scheduler",
        Case(
            ("args", "train-iters"),
            # of tasks/main.py: `epochs` gives the length
            "not spec.training, not train_iters, not train_samples, not skip_train, "
            "not inference, not task, not epochs",
            "train-iters is missing: how long to train",
            "add `train-iters: 500000` or train-samples to args",
        ),
    ),
    row(
        "`train-iters` with `lr-decay-samples`, `lr-warmup-samples` or `rampup-batch-size`",
        "it asserts iteration-based settings",
        _VALIDATE,
        Case(
            "lr_decay_samples",
            "train_iters > 0, it != 0",
            _COUNTS_SAMPLES,
            "train-samples: with it, or lr-decay-iters",
        ),
        Case(
            "lr_warmup_samples",
            "train_iters > 0, it != 0",
            _COUNTS_SAMPLES,
            "train-samples: with it, or lr-warmup-iters",
        ),
        Case(
            "rampup_batch_size",
            "train_iters > 0, it != 0",
            _COUNTS_SAMPLES,
            "train-samples: with it, or no ramp",
        ),
    ),
    row(
        "`train-samples` with `lr-decay-iters` or `lr-warmup-iters`",
        "it asserts sample-based settings",
        _VALIDATE,
        Case(
            "lr_decay_iters",
            "train_samples > 0, it != 0",
            _COUNTS_ITERATIONS,
            "write lr-decay-samples, or train-iters",
        ),
        Case(
            "lr_warmup_iters",
            "train_samples > 0, it != 0",
            _COUNTS_ITERATIONS,
            "write lr-warmup-samples, or train-iters",
        ),
    ),
    row(
        "a warm-up given twice, as a fraction and as a number",
        "it asserts one of them",
        _VALIDATE,
        Case(
            "lr_warmup_iters|lr_warmup_samples",
            "lr_warmup_fraction, it > 0",
            "{argument} beside lr-warmup-fraction",
            "remove one of them",
        ),
    ),
    warmup_beyond_decay,
    row(
        "no `lr`",
        "the optimizer fails: its learning rate is None",
        "optimizer/__init__.py",
        Case(
            ("args", "lr"),
            "not lr, not inference, not task, not epochs",  # some of tasks/main.py need none
            "lr is missing: the learning rate",
            "add `lr: 1.5e-4` to args",
        ),
    ),
    row(
        "`min-lr` above `lr`",
        "it asserts min_lr <= lr",
        _VALIDATE,
        Case("min_lr", "it > lr", "{it:g} is above lr {lr:g}", "a smaller min-lr"),
    ),
    row(
        "`weight-decay-incr-style` without start and end, or these without it",
        "it asserts that both or none are given",
        _VALIDATE,
        Case(
            "start_weight_decay|end_weight_decay",
            "not weight_decay_incr_style or weight_decay_incr_style == constant",
            "the weight decay is constant: its start and end are not used",
            "add `weight-decay-incr-style: linear`, or remove it",
        ),
        Case(
            "weight_decay_incr_style",
            "it != constant, not start_weight_decay or not end_weight_decay",
            "start-weight-decay and end-weight-decay are missing",
            "add both to args",
        ),
    ),
    ramp,
    row(
        "`save` or `checkpoints` without `save-interval`",
        "it asserts save_interval",
        _VALIDATE,
        Case(
            ("checkpoints",),
            "spec.checkpoints, not save_interval",
            "save-interval is missing: how often a checkpoint is saved",
            "add `save-interval: 1000` (iterations) to args; Megatron asserts it",
        ),
        Case(
            "save",
            "not spec.checkpoints, not save_interval",
            "save-interval is missing: how often a checkpoint is saved",
            "add `save-interval: 1000` (iterations) to args; Megatron asserts it",
        ),
    ),
    row(
        "`save-interval` without `checkpoints` or `save`",
        "it trains to the end and saves nothing",
        "training.py, train",
        Case(
            "save_interval",
            "not spec.checkpoints, not save",
            "nothing is saved: the spec has no folder for checkpoints",
            "add checkpoints: {{path: /fsx/checkpoints}}",
        ),
        warning=True,
    ),
    interval_beyond_the_end,
)

# What both Megatrons take without a word, with the sources of arguments.py and checkpointing.py.
SILENT_RULES: tuple[Rule[Given], ...] = (
    row(
        "`finetune`, `no-load-optim`, `no-load-rng` or `no-save-optim` with restarts",
        "each attempt begins at iteration 0, or without the optimizer's state",
        "checkpointing.py, load_checkpoint",
        Case(
            "finetune|no_load_optim|no_load_rng|no_save_optim|no_save_rng",
            "spec.restarts",
            "{argument}: a restarted job would not continue where it was",
            "remove it, or restarts; begin from another checkpoint in a job of its own",
        ),
        warning=True,
    ),
    row(
        "`exit-interval` with restarts",
        "each attempt ends with exit code 0, as if the training were done",
        "training.py, train",
        Case(
            "exit_interval",
            "it < train_iters, spec.restarts",
            "every attempt ends after {it:g} iterations with exit code 0: the job is done",
            "remove it",
        ),
        warning=True,
    ),
    row(
        "`tensorboard-log-interval` or another setting of TensorBoard without `tensorboard-dir`",
        "it writes no events",
        "global_vars.py, _set_tensorboard_writer",
        Case(
            "tensorboard_log_interval|tensorboard_queue_size|log_timers_to_tensorboard|"
            "log_memory_to_tensorboard|log_world_size_to_tensorboard",
            "not tensorboard_dir, not wandb_project",
            "{argument} has no effect without tensorboard-dir",
            "add `tensorboard-dir: /fsx/logs/tensorboard`, or remove it",
        ),
        warning=True,
    ),
    row(
        "`wandb-exp-name` or `wandb-save-dir` without `wandb-project`",
        "it logs nothing there",
        "global_vars.py, _set_wandb_writer",
        Case(
            "wandb_exp_name|wandb_save_dir",
            "not wandb_project",
            "{argument} has no effect without wandb-project",
            "add `wandb-project: my-project`, or remove it",
        ),
        warning=True,
    ),
    row(
        "`adam-beta1`, `adam-beta2` or `adam-eps` with SGD, or `sgd-momentum` with Adam",
        "it is not read",
        "optimizer/__init__.py",
        Case(
            "adam_beta1|adam_beta2|adam_eps",
            "optimizer == sgd",
            "{argument} is not read: the optimizer is sgd",
            "remove it, or write `optimizer: adam`",
        ),
        Case(
            "sgd_momentum",
            "not optimizer or optimizer == adam",
            "sgd-momentum is not read: the optimizer is adam",
            "remove it, or write `optimizer: sgd`",
        ),
        warning=True,
    ),
    row(
        "`eval-interval` or `log-interval` longer than the training",
        "it never evaluates, or never logs",
        "training.py, train",
        Case(
            "eval_interval",
            "it > train_iters, train_iters > 0, eval_iters != 0",
            "longer than the training, {train_iters:g} iterations: it evaluates at the end alone",
            "a smaller eval-interval, or eval-iters: 0",
        ),
        Case(
            "log_interval",
            "it > train_iters, train_iters > 0",
            "longer than the training, {train_iters:g} iterations: no line is logged",
            "a smaller log-interval",
        ),
        warning=True,
    ),
)

RULES = (*SCHEDULE_RULES, *MODEL_RULES, *SILENT_RULES)
