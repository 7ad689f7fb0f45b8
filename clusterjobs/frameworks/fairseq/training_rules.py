"""Rules about fairseq's arguments: optimizer, schedule, sharding, checkpoints.

Source: fairseq 0.12.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.fairseq.given import Given
from clusterjobs.frameworks.rules import Finding, rule

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
