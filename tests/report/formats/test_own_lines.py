"""Lines that programs of one's own print, as many do, without any key of the spec."""

from __future__ import annotations

import pytest

from clusterjobs.report.logs.general.reader import General
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Event, Window

LINES: dict[str, tuple[int, dict[str, float]]] = {
    "step:126/1750 train_time:12432ms step_avg:98.67ms": (126, {"elapsed": 12.432}),
    "step:10 - actor/entropy:0.41 - actor/pg_loss:0.013 - actor/grad_norm:0.31 - "
    "perf/throughput:1234.5 - timing_s/step:45.2 - timing_s/gen:20.1": (
        10,
        {"loss": 0.013, "grad_norm": 0.31, "tokens_per_second_per_gpu": 1234.5, "seconds": 45.2},
    ),
    '{"current_steps": 10, "total_steps": 100, "loss": 1.25, "lr": 5e-05, "epoch": 0.31, '
    '"percentage": 10.0, "elapsed_time": "0:01:20", "remaining_time": "0:12:00"}': (
        10,
        {"loss": 1.25, "learning_rate": 5e-05, "elapsed": 80},
    ),
    "2026-05-08 18:44:23,494 - mmdet - INFO - Epoch [1][1200/7500]\tlr: 0.125, eta: 4:44:04, "
    "time: 0.5, data_time: 0.25, memory: 6144, loss_cls: 0.09, acc: 94.06, loss: 0.75": (
        1200,
        {
            "learning_rate": 0.125,
            "seconds": 0.5,
            "data_seconds": 0.25,
            "memory_gib": 6,
            "loss": 0.75,
        },
    ),
    "Epoch(train)  [2][50/1000]  lr: 0.5  eta: 1 day, 2:03:04  time: 0.5  loss: 0.25": (
        1050,
        {"learning_rate": 0.5, "seconds": 0.5, "loss": 0.25},
    ),
    "[01/02 03:04:05 d2.utils.events]:  eta: 1:23:45  iter: 19  total_loss: 3.2  loss_cls: 1.1  "
    "time: 0.25  last_time: 0.24  data_time: 0.125  lr: 0.5  max_mem: 2048M": (
        19,
        {
            "loss": 3.2,
            "seconds": 0.25,
            "data_seconds": 0.125,
            "learning_rate": 0.5,
            "memory_gib": 2,
        },
    ),
    "Train: 1 [  50/1000 (  5%)]  Loss: 6.5 (6.9)  Time: 0.5s, 2048.5/s  (0.6s, 1900.0/s)  "
    "LR: 0.5  Data: 0.125 (0.2)": (
        50,
        {
            "loss": 6.5,
            "seconds": 0.5,
            "samples_per_second": 2048.5,
            "learning_rate": 0.5,
            "data_seconds": 0.125,
        },
    ),
    "Epoch: [0]  [ 100/5000]  eta: 0:12:34  lr: 0.5  img/s: 234.5  loss: 6.5 (7.0)  "
    "acc1: 0.1 (0.2)  time: 0.5  data: 0.25  max mem: 4096": (
        100,
        {
            "learning_rate": 0.5,
            "samples_per_second_per_gpu": 234.5,
            "loss": 6.5,
            "seconds": 0.5,
            "data_seconds": 0.25,
            "memory_gib": 4,
        },
    ),
    "Epoch: [1][  10/5000]\tTime  0.5 ( 1.2)\tData  0.25 ( 0.9)\tLoss 6.5e+00 (7.0e+00)\tAcc@1 0": (
        10,
        {"seconds": 0.5, "data_seconds": 0.25, "loss": 6.5},
    ),
    "Step 10 | loss:1.25 lr:0.5 tokens_per_second_per_gpu:1234.5 peak_memory_active:12.3": (
        10,
        {"loss": 1.25, "learning_rate": 0.5, "tokens_per_second_per_gpu": 1234.5},
    ),
    "100/938 [==>...........................] - ETA: 5s - loss: 2.25": (100, {"loss": 2.25}),
    "100/938 \u2501\u2501\u2501 12s 125ms/step - accuracy: 0.1 - loss: 2.25": (
        100,
        {"seconds": 0.125, "loss": 2.25},
    ),
    "step  100/19560 | loss 6.5 (+0.12z)| norm 1.5 (-0.1z)| lr 0.25 | 500.0 ms | 50.0% bf16 MFU "
    "| 1730048 tok/s": (
        100,
        {
            "loss": 6.5,
            "grad_norm": 1.5,
            "learning_rate": 0.25,
            "seconds": 0.5,
            "printed_mfu": 0.5,
            "tokens_per_second": 1730048,
        },
    ),
    "step 00010/21400 (0.05%) | loss: 6.5 | lrm: 1.00 | dt: 500.0ms | tok/sec: 1,234,567 | "
    "mfu: 50": (
        10,
        {"loss": 6.5, "seconds": 0.5, "tokens_per_second": 1234567, "printed_mfu": 0.5},
    ),
    "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 125.0 | loss  7.5 | ppl  2041.29": (
        200,
        {"learning_rate": 20, "seconds": 0.125, "loss": 7.5},
    ),
    "Iter #5, loss=0.5, it/s=2.5": (5, {"loss": 0.5, "seconds": 0.4}),
    "2026-01-01 12:00:01 INFO train step 5 loss=2.5": (5, {"loss": 2.5, "time": 1767268801}),
    "step 12/50 loss 3.4 samples/s 51.2": (12, {"loss": 3.4, "samples_per_second": 51.2}),
    "step 12 loss 3.4 51.2 samples/s 1234 tokens/s": (
        12,
        {"loss": 3.4, "samples_per_second": 51.2, "tokens_per_second": 1234},
    ),
    "step 12 samples/s 51.2 tokens/s 1,234": (
        12,
        {"samples_per_second": 51.2, "tokens_per_second": 1234},
    ),
    "iter 10: loss 3.9, time 110.5ms, mfu 12.5%": (
        10,
        {"loss": 3.9, "seconds": 0.1105, "printed_mfu": 0.125},
    ),
    "step 250: train loss 2.4, val loss 2.5": (250, {"loss": 2.4}),
    "[Epoch 1/10] [Step 100/1000] Loss: 3.2, 51.2 img/s": (
        100,
        {"loss": 3.2, "samples_per_second": 51.2},
    ),
    "{'step': 10, 'loss': 2.5, 'tokens_per_second': 9}": (
        10,
        {"loss": 2.5, "tokens_per_second": 9},
    ),
    "/a/test/b.py:3 Step 7 | LR=1e-4 | tokens/s/gpu: 4,000": (
        7,
        {"learning_rate": 1e-4, "tokens_per_second_per_gpu": 4000},
    ),
    "step 5 grad_norm 1.5 0.5 samples per second": (
        5,
        {"grad_norm": 1.5, "samples_per_second": 0.5},
    ),
    "step 5 loss 3,5 samples/s 51,5": (5, {"loss": 3.5, "samples_per_second": 51.5}),
}


@pytest.mark.parametrize("line", LINES)
def test_values_stand_behind_their_names_and_rates_also_before(line: str) -> None:
    (window,) = (one for one in General().read(line, None) if isinstance(one, Window))
    assert (window.step, window.values) == LINES[line]


def steps(text: str) -> list[int]:
    found = read_log([text.encode()]).records
    return [one.step for one in found if isinstance(one, Window)]


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("Epoch [{}/3], Step [{}/60], Loss: 2.5\n", range(10, 61, 10)),
        ("epoch {} step {} loss 2.5\n", range(10, 61, 10)),  # without the length of an epoch
        ("epoch={} iter={} loss=2.5\n", range(0, 60, 10)),  # counted from 0
        ("{{'epoch': {}, 'step': {}, 'loss': 2.5}}\n", range(1, 61)),
    ],
)
def test_steps_that_count_from_the_start_of_an_epoch_go_on(form: str, printed: range) -> None:
    found = steps("".join(form.format(epoch, step) for epoch in (1, 2, 3) for step in printed))
    assert found == [60 * epoch + step for epoch in range(3) for step in printed]


def test_steps_that_count_through_all_epochs_are_left_as_they_are() -> None:
    text = "".join(f"epoch {step // 10} step {step} loss 2.5\n" for step in range(5, 40, 5))
    assert steps(text) == list(range(5, 40, 5))


def test_an_attempt_that_resumes_in_an_earlier_epoch_repeats_its_steps() -> None:
    form = "epoch {} step {}/60 loss 2.5\n"
    first = "".join(form.format(epoch, step) for epoch in (1, 2, 3) for step in (20, 40, 60))
    again = "".join(form.format(epoch, step) for epoch in (2, 3, 4) for step in (20, 40, 60))
    assert steps(first + again) == [*range(20, 181, 20), *range(80, 241, 20)]


@pytest.mark.parametrize(
    "line", ["total steps: 1000 lr: 0.1", "validation step 10 loss 3.3", "max steps 9, loss 3"]
)
def test_settings_and_validation_are_no_steps_of_the_training(line: str) -> None:
    assert list(General().read(line, None)) == []


@pytest.mark.parametrize(
    "line", ["step 3 | val loss 2.5", "step=3 eval_loss=2.5", "step 3 validation/loss: 2.5"]
)
def test_a_loss_of_the_validation_is_not_that_of_the_training(line: str) -> None:
    assert list(General().read(line, None)) == [Event("validation", 3, 2.5)]


def test_an_indented_line_goes_on_with_the_step_above() -> None:
    text = (
        "[step=100/739328,epoch=0]\n"
        "    train/CrossEntropyLoss=7.125\n"
        "    throughput/device/tokens_per_second=12,345\n"
        "    eval/loss=9\n"
        "loss=1\n"
    )
    (only,) = (one for one in read_log([text.encode()]).records if isinstance(one, Window))
    assert (only.step, only.values) == (100, {"loss": 7.125, "tokens_per_second_per_gpu": 12345})


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("", []),  # the time and the count are of samples
        ("     batch_size: 1       \n", [(100, 0.125), (200, 0.125), (300, 0.125)]),
        ("     batch_size: 4       \t[default: 1]\n", [(25, 0.5), (50, 0.5), (75, 0.5)]),
    ],
)
def test_counts_of_samples_are_steps_where_the_batch_is_known(
    options: str, found: list[tuple[int, float]]
) -> None:
    lines = "".join(
        f"(epoch: 1, iters: {count}, time: 0.125, data: 0.3) G_GAN: 1.1 D_real: 0.5\n"
        for count in (100, 200, 300)
    )
    windows = [
        one for one in read_log([(options + lines).encode()]).records if isinstance(one, Window)
    ]
    assert [(one.step, one.values["seconds"]) for one in windows] == found
