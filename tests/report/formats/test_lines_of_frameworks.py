"""Lines as the frameworks print them, and what is read of them.

fairseq, Horovod, the Trainer and Lightning are also compared with real runs (test_real_logs.py).
The others are written as their sources and pages describe their lines: they were not run here.
"""

from __future__ import annotations

import math

import pytest

from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Event, Log, Window


def read(text: str) -> Log:
    return read_log([text.encode()])


def windows(text: str) -> list[tuple[int, dict[str, float]]]:
    found = [one for one in read(text).records if isinstance(one, Window)]
    return [
        (one.step, {name: round(value, 6) for name, value in one.values.items()}) for one in found
    ]


ONE_LINE = {
    "nemo": (
        "Training epoch 1, iteration 10/999 | lr: 0.0001 | global_batch_size: 512 | "
        "global_step: 29 | reduced_train_loss: 11.03 | train_step_timing in s: 46.84 | "
        "consumed_samples: 15360",
        (30, {"loss": 11.03, "seconds": 46.84, "batch": 512, "learning_rate": 0.0001}),
    ),
    "mlperf": (
        ':::MLLOG {"time_ms": 1700000000500, "key": "tracked_stats", "value": '
        '{"train_step_timing": 5.4, "reduced_train_loss": 2.5}, "metadata": {"step": 100}}',
        (100, {"seconds": 5.4, "loss": 2.5, "time": 1700000000.5}),
    ),
    "litgpt": (
        "Epoch 1 | iter 128 step 128 | loss train: 2.310, val: n/a | iter time: 512.30 ms (step)",
        (128, {"loss": 2.31, "seconds": 0.5123}),
    ),
    "paddle": (
        "[train] epoch: 0, batch: 1, loss: 10.99, avg_batch_cost: 0.51164 sec, speed: 1.95 step/s, "
        "ips_total: 16011 tokens/s, ips: 2001 tokens/s, learning rate: 4.1e-08",
        (
            2,
            {"loss": 10.99, "seconds": 0.51164, "tokens_per_second": 16011, "learning_rate": 0.0},
        ),
    ),
    "aws-fsdp": (
        "Batch 0 Loss: 11.61653, Speed: 4.88 samples/sec, Tokens/s: 9,994.2, TFLOPS/GPU: 210.5, "
        "MFU: 0.21, lr: 0.000100",
        (
            1,
            {
                "loss": 11.61653,
                "samples_per_second": 4.88,
                "tokens_per_second": 9994.2,
                "printed_tflops_per_gpu": 210.5,
                "printed_mfu": 0.21,
                "learning_rate": 0.0001,
            },
        ),
    ),
}


@pytest.mark.parametrize("name", ONE_LINE)
def test_a_line_is_read(name: str) -> None:
    line, expected = ONE_LINE[name]
    assert read(f"{line}\n").format == name
    assert windows(f"{line}\n") == [expected]


def test_steps_of_mlperf_follow_from_samples_and_batch() -> None:
    lines = (
        ':::MLLOG {"key": "global_batch_size", "value": 32}\n'
        ':::MLLOG {"key": "tracked_stats", "value": {"train_loss": 3}, '
        '"metadata": {"samples_count": 320}}\n'
    )
    assert windows(lines) == [(10, {"loss": 3, "batch": 32})]


BLOCK = ':::MLLOG {{"time_ms": {}, "key": "block_{}", "metadata": {}}}\n'
SIZES = (
    ':::MLLOG {"key": "global_batch_size", "value": 512}\n'
    ':::MLLOG {"key": "max_sequence_length", "value": 2048}\n'
)


def test_tokens_that_mlperf_counts_are_no_steps() -> None:
    """A block of 12 steps in 60 s, then 10 s of evaluation."""
    block, text = 12 * 512 * 2048, SIZES
    for number in range(3):
        counts = f'{{"first_epoch_num": {number * block}, "epoch_count": {block}}}'
        begin = 1_700_000_000_000 + 70_000 * number
        text += BLOCK.format(begin, "start", counts) + BLOCK.format(begin + 60_000, "stop", counts)
    found = windows(text)
    assert [step for step, _ in found] == [12, 24, 36]
    assert {values["seconds"] for _, values in found} == {5}


@pytest.mark.parametrize(("unit", "last"), [(1, 300), (512, 300), (0.01, 300)])
def test_the_speed_says_what_mlperf_counts(unit: float, last: int) -> None:
    """100 steps of 512 samples in 10 s; an epoch has 51,200 samples."""
    text = SIZES + ':::MLLOG {"key": "train_samples", "value": 51200}\n'
    for number in range(4):
        text += (
            f':::MLLOG {{"time_ms": {1_700_000_000_000 + 10_000 * number}, "key": "tracked_stats", '
            f'"value": {{"throughput": 5120}}, "metadata": {{"step": {100 * unit * number}}}}}\n'
        )
    assert windows(text)[-1][0] == last


def test_litgpt_has_no_time_of_a_step_that_accumulates() -> None:
    line = (
        "Epoch 1 | iter 128 step 16 | loss train: 2.310, val: n/a | iter time: 512.30 ms (step)\n"
    )
    assert windows(line) == [(16, {"loss": 2.31})]


def test_steps_of_maxtext_and_its_speed_count_as_printed() -> None:
    lines = "".join(
        f"completed step: {step}, seconds: {seconds}, TFLOP/s/device: 508.371, "
        f"Tokens/s/device: 5279.0, total_weights: 9, loss: 5.1\n"
        for step, seconds in enumerate((12.5, 0.002, 15.6))
    )
    found = windows(lines)
    assert [(step, values["seconds"]) for step, values in found] == [
        (1, 12.5),
        (2, 0.002),
        (3, 15.6),
    ]
    assert found[-1][1]["tokens_per_second_per_gpu"] == 5279


def test_epochs_of_paddle_follow_each_other() -> None:
    line = "[train] epoch: {}, batch: {}, loss: 9.0, avg_batch_cost: 0.5 sec\n"
    found = windows("".join(line.format(*place) for place in ((0, 0), (0, 10), (1, 0), (1, 10))))
    assert [step for step, _ in found] == [1, 11, 21, 31]


def test_metrics_of_composer_belong_to_the_batch_above() -> None:
    lines = (
        "[epoch=2][batch=10/200]:\n"
        "\t Train time/epoch: 1\n"
        "\t Train loss/train/total: 2.3101\n"
        "\t Train throughput/samples_per_sec: 51.2000\n"
        "\t Train lr-DecoupledAdamW/group0: 1.0e-4\n"
        "[Eval batch=3/10] Eval on eval data:\n"
        "\t Eval metrics/eval/CrossEntropy: 2.1\n"
    )
    expected = {"loss": 2.3101, "samples_per_second": 51.2, "learning_rate": 0.0001}
    assert windows(lines) == [(210, expected)]


FAIRSEQ = (
    '2021-01-01 12:00:00 | INFO | train_inner | {"epoch": 1, "update": 0.294, "loss": "7.719", '
    '"ppl": "210.74", "wps": "11732.8", "ups": "23.35", "wpb": "503.6", "bsz": "8", '
    '"num_updates": "%d", "lr": "0.0005", "gnorm": "1.216", "loss_scale": "128"}\n'
)


def test_fairseqs_json_is_read_in_nats_and_without_the_first_speed() -> None:
    found = windows(FAIRSEQ % 5 + FAIRSEQ % 10)
    loss = round(7.719 * math.log(2), 6)
    common = {"learning_rate": 0.0005, "grad_norm": 1.216, "loss_scale": 128, "batch": 8}
    assert found[0] == (5, {**common, "loss": loss})
    speeds = {"tokens_per_second": 11732.8, "seconds": round(503.6 / 11732.8, 6)}
    assert found[1] == (10, {**common, **speeds, "loss": loss})


def test_the_end_of_an_epoch_counts_where_it_had_no_line() -> None:
    end = (
        '2021-01-01 12:10:00 | INFO | train | {"epoch": 1, "train_loss": "%s", '
        '"train_num_updates": "%d", "train_wps": "100", "train_wpb": "50"}\n'
    )
    lines = FAIRSEQ % 5 + end % (7.0, 8) + end % (6.0, 16)
    assert [step for step, _ in windows(lines)] == [5, 16]


def test_fairseq_tells_of_checkpoints_and_validation() -> None:
    lines = (
        FAIRSEQ % 5 + "2021-01-01 12:10:00 | INFO | valid | epoch 001 | valid on 'valid' subset | "
        "loss 6.1 | ppl 68.6 | wps 30000 | wpb 400 | bsz 8 | num_updates 17\n"
        "2021-01-01 12:10:01 | INFO | fairseq.checkpoint_utils | Saved checkpoint /a b/last.pt "
        "(epoch 1 @ 17 updates, score 6.1) (writing took 0.25 seconds)\n"
        "2021-01-01 12:20:01 | INFO | fairseq.trainer | Loaded checkpoint /a b/last.pt "
        "(epoch 2 @ 17 updates)\n"
    )
    events = [one for one in read(lines).records if isinstance(one, Event)]
    assert [(one.kind, one.step) for one in events] == [
        ("validation", 17),
        ("saved", 17),
        ("resumed", 17),
    ]
    assert events[0].value == pytest.approx(6.1 * math.log(2))
    assert events[1].value == 0.25


def test_horovods_benchmark_counts_from_zero_and_prints_one_ranks_speed() -> None:
    lines = "Number of GPUs: 16\nIter #0: 300.0 img/sec per GPU\nIter #1: 312.4 img/sec per GPU\n"
    assert windows(lines) == [
        (1, {"samples_per_second_per_gpu": 300, "samples_per_second": 4800}),
        (2, {"samples_per_second_per_gpu": 312.4, "samples_per_second": 4998.4}),
    ]


def test_lines_without_a_step_are_counted_for_each_rank() -> None:
    line = "{}: Train Epoch: 1 [{}/3750 (0%)]\tLoss: 0.5\n"
    lines = "".join(line.format(rank, 320 * part) for part in range(3) for rank in (0, 1))
    assert [step for step, _ in windows(lines)] == [1, 2, 3]


BAR = "\r {:3}%|##        | {}/100 [{:02}:{:02}<09:59,  1.25s/it]"


def trainer_log(seconds_per_step: int) -> str:
    """Every 10 steps a line, and a bar after each step, as tqdm writes both."""
    text = ""
    for step in range(1, 41):
        elapsed = step * seconds_per_step
        text += BAR.format(step, step, elapsed // 60, elapsed % 60)
        if step % 10 == 0:
            text += f"\r{{'loss': '{5 - step / 10}', 'grad_norm': '1.5', 'epoch': '{step / 50}'}}\n"
            text += BAR.format(step, step, elapsed // 60, elapsed % 60)
    return text + "\n{'train_runtime': '80.1', 'train_samples_per_second': '31.2', 'epoch': '1'}\n"


def test_the_bar_says_the_step_of_the_trainers_lines() -> None:
    found = windows(trainer_log(2))
    assert [step for step, _ in found] == [10, 20, 30, 40]
    assert {values.get("seconds") for _, values in found} == {2, None}
    assert found[0][1]["loss"] == 4


def test_a_bar_of_whole_seconds_gives_a_speed_once_it_is_certain() -> None:
    found = [values.get("seconds") for _, values in windows(trainer_log(1))]
    assert found == [1, 1, 1, None]


@pytest.mark.parametrize("number", ["nan", "inf", "'nan'", "2.5"])
def test_the_trainers_older_numbers_are_read(number: str) -> None:
    ((step, values),) = windows(f"{{'loss': {number}, 'learning_rate': 5e-05, 'epoch': 0.1}}\n")
    assert step == 1
    assert str(values["loss"]) == number.strip("'")


def test_a_repeated_epoch_of_the_trainer_is_the_earlier_step() -> None:
    line = "{{'loss': '2.0', 'epoch': '{}'}}\n"
    lines = "".join(line.format(epoch) for epoch in (0.1, 0.2, 0.3, 0.4, 0.3, 0.4, 0.5))
    assert [step for step, _ in windows(lines)] == [1, 2, 3, 4, 3, 4, 5]


def test_lightnings_bar_counts_epochs_and_shows_each_loss_late() -> None:
    bar = "\rEpoch {}:  50%|#####     | {}/100 [{}<00:40,  2.20it/s, v_num=0, train_loss={}]"
    text = "0: "
    before = "9.000"
    for epoch, batch, elapsed, loss in (
        *((0, 50, "01:00", "2.310"), (0, 100, "01:40", "2.210")),
        (1, 50, "00:41", "2.110"),
    ):
        text += bar.format(epoch, batch, elapsed, before) + bar.format(epoch, batch, elapsed, loss)
        before = loss
    assert windows(f"{text}\n") == [
        (50, {"loss": 2.31}),
        (100, {"loss": 2.21, "seconds": 0.8}),
        (150, {"loss": 2.11}),
    ]


def test_a_damaged_dictionary_warns_nobody(recwarn: pytest.WarningsRecorder) -> None:
    assert windows("{'loss': 1if 2else '\\d'}\n{'loss': 2.5}\n") == [(1, {"loss": 2.5})]
    assert not list(recwarn)


HOSTILE = [
    "{'loss': __import__('os').system('x')}",
    "{'loss': " + "[" * 9000 + "}",
    "{'loss': '1'",
    "'loss': {'",
    ":::MLLOG {",
    ":::MLLOG " + "[" * 90_000,
    ':::MLLOG {"key": "tracked_stats", "value": {"loss": true}, "metadata": {"step": 1e999}}',
    "Training epoch 1, iteration 1/9 | global_step: 99999999999999999999 |",
    "train_inner | num_updates=, loss=",
    "step:126/1750 train_time:12432ms step_avg:98.67\nstep:127/1750 train_time:12532ms step_avg:98",
    'train_inner | {"epoch": 1, "num_updates": [1]}',
    'train_inner | {"epoch": 1, "num_updates": "inf", "loss": 1}',
    'train_inner | {"epoch": 1, "num_updates": 1e300, "loss": 1}',
    'train_inner | {"epoch": 1, "num_updates": -3, "loss": 1}',
    "completed step: 1, seconds: ,,,, TFLOP/s/device: -, ",
    "[epoch=999999999][batch=999999999999999/999999999999999]:\n\t Train loss/train/total: nan",
    "Epoch 1: 10%|" + "#" * 100_000,
    # Lines of a megabyte on which a pattern without bounds takes hours.
    "%|| 1/2 [00:01<1, 1" * 50_000,
    "%|#" * 300_000,
    "Training epoch 1, iteration 1/2 " * 30_000 + "global_step: ",
    "Saved checkpoint a @ 1 updates " * 30_000,
    "Loaded checkpoint " * 50_000 + " updates",
    "[epoch=1]" * 100_000 + "[batch=",
    "num_updates=1, " * 60_000,
    "{'loss': " * 100_000,
    "step 1 loss " + "1" * 900_000 + "x",
    "step 1 " + "loss 1111x " * 90_000,
    "Train loss/train/total: " * 40_000,
    "completed step: 1, seconds: " + "1" * 900_000,
    "-compute" * 100_000,
    "forward-compute" + " ......:" * 100_000,
]


@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_a_damaged_line_is_dropped(line: str) -> None:
    good = "step 3 loss 2.5\n"
    found = read(f"{line}\n{good}")
    assert found.lines >= 2
    assert all(0 <= (one.step or 0) < 10**15 for one in found.records)
