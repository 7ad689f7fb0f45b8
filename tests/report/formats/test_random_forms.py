"""Lines of programs that nobody has written: names, values and separators by chance.

Beside the step, the loss and at most two speeds, a line has values that are easily taken for one
of them. What the report shows must be the truth; it may show nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from tests.report.formats.test_forms_of_programs import (
    BATCH,
    EACH,
    SAMPLES,
    SECONDS,
    SEQUENCE,
    TOKENS,
    Form,
    clock,
    loss,
    since,
    wrong_numbers,
)

_STEPS = (
    *("step", "Step", "steps", "global_step", "train_step", "train/step", "trainer/global_step"),
    *("iter", "Iter", "iteration", "Iteration", "it", "update", "num_updates"),
)
_LOSSES = (
    *("loss", "Loss", "lm loss", "total_loss", "train_loss", "train/loss", "training_loss"),
    *("train loss", "avg_loss", "loss/train", "ce_loss", "metrics/loss"),
)
_TIMES = (
    *("step_time", "time_per_step", "iter_time", "batch_time", "time/step", "train/step_time"),
    *("sec/it", "s/iter", "sec_per_step", "perf/step_time", "elapsed_per_step"),
)
Value = Callable[[int], tuple[str, object]]
SPEEDS: tuple[Value, ...] = (
    *((lambda _, name=name: (name, "0.500")) for name in _TIMES),  # type: ignore[misc]
    *((lambda _, name=name: (name, "500.0ms")) for name in _TIMES[:6]),  # type: ignore[misc]
    lambda _: ("step_time_ms", "500.0"),
    lambda _: ("step_time_s", "0.5"),
    lambda _: ("it/s", "2.00"),
    lambda _: ("steps_per_sec", "2.00"),
    lambda _: ("", "500.0 ms/step"),
    lambda _: ("", "2.00 it/s"),
    lambda _: ("", "0.50 s/it"),
    lambda _: ("samples/s", f"{SAMPLES:.1f}"),
    lambda _: ("samples_per_second", f"{SAMPLES:.2f}"),
    lambda _: ("", f"{SAMPLES:.1f} samples/sec"),
    lambda _: ("tok/s", f"{TOKENS:.0f}"),
    lambda _: ("tokens_per_sec", f"{TOKENS:.1f}"),
    lambda _: ("tokens/sec/gpu", f"{EACH:.1f}"),
    lambda _: ("", f"{TOKENS:,.0f} tok/s"),
    lambda _: ("", f"{TOKENS / 1000:.3f}k tokens/s"),
)
_DECOYS = """
    lr:3.0e-04 grad_norm:1.23 eta:1:02:03 mem:12.3GB batch_size:32 seq_len:1024 accuracy:0.512
    data_time:0.012 reward:0.31 forward:0.2s remaining:1000s backward_time:0.3 tflops:123.4
    gpu_util:98% temperature:0.7 power:400W val_loss:9.9 valid/loss:7.5 aux_loss:0.01 ppl:23.4
    mlm_loss:1.01 entropy_loss:9.2 z_loss:0.001 best_loss:3.5 log_interval:10 max_steps:5000
    warmup_steps:100 save_time:12.3 eval_time:12.3 epoch_time:100.0 optimizer_time:0.1 hours:0.1
    model_time:0.2 sampling_time_s:9.2 max_time:9.2 wait_time:9.2 gpu_time:0.2 time_left:5
    gen_time:3.3 rollout_time:3.1s queue_time:4 env_steps/s:9999 fps:777 wps:777 frames/s:4
    rank:0 world_size:8 loss_scale:65536.0 tokens_per_step:32768 per_gpu_batch:4
"""
DECOYS: tuple[Value, ...] = (
    *((lambda _, one=one: one.split(":", 1)) for one in _DECOYS.split()),  # type: ignore[misc]
    lambda x: ("epoch", f"{x / 1000:.2f}"),
    lambda x: ("total_time", f"{x * SECONDS:.1f}s"),
    lambda x: ("elapsed", since(x)),
    lambda x: ("consumed_tokens", x * BATCH * SEQUENCE),
    lambda x: ("train_tokens", f"{x * BATCH * SEQUENCE:.2e}"),
    lambda x: ("samples_seen", x * BATCH),
    lambda x: ("micro_step", x * 4),
    lambda x: ("epoch_step", x),
)
_PREFIXES = (
    *("", "[INFO] ", "{} INFO train.py:123: ", "{},123 - root - INFO - ", "[rank0]: ", "[train] "),
    *("I0306 12:00:00.1 140 train.py:1] ", "(worker pid=1234) "),
)
_BETWEEN = (
    *("", "", "", "saved checkpoint 3 of 5 in 12.3 s\n", "GPU 0 has 71.2 of 80.0 GB in use\n"),
    *("WARNING: loss spike 3.4 times the mean\n", "loaded 1,024 samples in 3.2 seconds\n"),
)


def random_form(chance: random.Random) -> Form:
    join = chance.choice((": ", "=", " ", ":", " = "))
    separator = chance.choice((" | ", ", ", " ", "  ", "; ", "\t", " - ", " || "))
    prefix, behind = chance.choice(_PREFIXES), chance.choice(_BETWEEN)
    step, total = chance.choice(_STEPS), chance.choice(("", "", "/5000", " / 5000"))
    name = chance.choice(_LOSSES)
    values: list[Value] = [
        lambda x: (name, f"{loss(x):.4f}"),
        *chance.sample(SPEEDS, chance.choice((0, 1, 1, 1, 2))),
        *chance.sample(DECOYS, chance.randrange(5)),
    ]
    chance.shuffle(values)
    values.insert(
        chance.choice((0, 0, 0, chance.randrange(len(values) + 1))), lambda x: (step, f"{x}{total}")
    )
    is_json = chance.random() < 0.15

    def line(x: int) -> str:
        pairs = [value(x) for value in values]
        if is_json:
            return json.dumps({name: value for name, value in pairs if name}) + "\n"
        parts = (f"{name}{join}{value}" if name else str(value) for name, value in pairs)
        return prefix.format(clock(x)) + separator.join(parts) + "\n" + behind

    return Form(line, every=chance.choice((1, 5, 10, 50)))


_IN_EPOCHS = (
    *("Epoch {e} {s} {k}/{n}", "Epoch [{e}/5], {s} [{k}/{n}]", "epoch: {e}, {s}: {k}/{n}"),
    *("Epoch {e}/5 | {s} {k}/{n}", "epoch={e} {s}={k}/{n}", "[{e}/5][{k}/{n}]"),
    *("Epoch: [{e}][{k}/{n}]", "Epoch {e}: {s} {k}", "[Epoch {e}/5] [Batch {k}/{n}]"),
    "Train Epoch: {e} [{k}/{n}]",
)
_VALIDATIONS = (
    *("eval: {s} {x} loss 9.9\n", "validation loss at {s} {x}: 9.9\n", "val_loss: 9.9 ({s} {x})\n"),
    *("[eval] {s}={x} | loss=9.9 | step_time=0.1\n", "Validating... loss 9.9 99.0 it/s\n"),
    "Test: [{x}/999] loss 9.9 time 0.1\n",
)


def random_lines(chance: random.Random) -> Form:
    """Steps of epochs, values below the step, lines of all ranks, or of a validation."""
    join, separator = chance.choice((": ", "=", " ", " = ")), chance.choice((" | ", ", ", "  "))
    name, step, count = chance.choice(_LOSSES), chance.choice(_STEPS), chance.choice((50, 200, 990))
    head, validation = chance.choice(_IN_EPOCHS), chance.choice(_VALIDATIONS)
    kind = chance.choice(("epochs", "an epoch above", "below", "ranks", "validation"))
    every = chance.choice((1, 5, 10, 50))
    values = [lambda x: (name, f"{loss(x):.4f}"), *chance.sample(SPEEDS, chance.choice((0, 1, 1)))]
    values += chance.sample(DECOYS, chance.randrange(3))

    def line(x: int) -> str:
        epoch, k = (x - 1) // count + 1, (x - 1) % count + 1
        parts = [f"{name}{join}{value}" if name else str(value) for name, value in pairs_of(x)]
        text = separator.join(parts)
        if kind == "epochs":
            return f"{head.format(e=epoch, s=step, k=k, n=count)}{separator}{text}\n"
        if kind == "an epoch above":
            above = f"=== Epoch {epoch}/5 ===\n" * (k <= every)
            return f"{above}{step} {k}/{count}{separator}{text}\n"
        if kind == "below":
            return "\n    ".join((f"{step} {x}", *parts)) + "\n"
        if kind == "ranks":
            return "".join(f"[rank{rank}]: {step} {x}{separator}{text}\n" for rank in range(3))
        return f"{step} {x}{separator}{text}\n" + validation.format(s=step, x=x) * (x % 250 == 0)

    def pairs_of(x: int) -> list[tuple[str, object]]:
        return [value(x) for value in values]

    return Form(line, every=every)


@pytest.mark.parametrize("seed", range(10))
def test_numbers_of_random_epochs_ranks_and_validations_are_right_or_unknown(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        form = random_lines(chance)
        wrong, _shown = wrong_numbers(form)
        assert not wrong, form.line(form.every)


@pytest.mark.parametrize("seed", range(20))
def test_numbers_of_a_random_form_are_right_or_unknown(seed: int) -> None:
    chance = random.Random(seed)
    shown = 0
    for _ in range(10):
        form = random_form(chance)
        wrong, quantities = wrong_numbers(form)
        assert not wrong, form.line(form.every)
        shown += "loss" in quantities
    assert shown >= 7
