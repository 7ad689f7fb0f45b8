"""Lines that are easily misread: labels of several ranks, counts of a process, units."""

from __future__ import annotations

import pytest

from clusterjobs.report.damaged import undamaged
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Event, Log, Window


def read(text: str) -> Log:
    return read_log([text.encode()])


def windows(text: str) -> list[Window]:
    return [one for one in read(text).records if isinstance(one, Window)]


def events(text: str) -> list[tuple[str, int | None]]:
    return [(one.kind, one.step) for one in read(text).records if isinstance(one, Event)]


ITERATION = (
    " iteration {:8}/  500000 | consumed samples:       147200 | elapsed time per iteration (ms): "
    "349.5 | global batch size:    64 | lm loss: 4.261599E+00 | samples per second: 183.128 |\n"
)
STEP = "[x] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, skipped=0, lr=[0.0001], mom=[0.9]\n"
TIMER = (
    "[x] [INFO] [timer.py:264:stop] epoch=0/micro_step=10/global_step={}, "
    "RunningAvgSamplesPerSec={}, CurrSamplesPerSec={}, MemAllocated=0.3GB, MaxMemAllocated={}GB\n"
)


def test_the_first_rank_prints_deepspeeds_lines_and_the_last_one_megatrons() -> None:
    """torchrun --tee labels both: each format has a rank of its own whose lines count."""
    text = ""
    for step in (10, 20, 30):
        text += "[default0]:" + STEP.format(step)
        text += "[default7]:" + ITERATION.format(step)
    found = windows(text)
    assert [(one.step, one.values["loss"]) for one in found] == [
        (step, 4.261599) for step in (10, 20, 30)
    ]
    assert {one.values["learning_rate"] for one in found} == {0.0001}


def test_the_memory_of_a_step_is_that_of_the_rank_that_uses_the_most() -> None:
    memory = "[default{0}]:[Rank {0}] (after 10 iterations) memory (MB) | max allocated: {1} |\n"
    text = "[default7]:" + ITERATION.format(10) + memory.format(0, 4096.0) + memory.format(3, 2048)
    assert windows(text)[0].values["memory_gib"] == 4
    without_labels = text.replace("[default", "[x").replace("[x7]:", "")
    assert windows(without_labels)[0].values["memory_gib"] == 4


def test_deepspeeds_timer_counts_from_the_start_of_a_process() -> None:
    """After a restart at step 100 it says 10 again, behind the engine's line of step 110."""
    text = "".join(
        STEP.format(step) + TIMER.format(count, 100.0, 90.0, 1)
        for step, count in ((90, 90), (100, 100), (110, 10), (120, 20))
    )
    assert [one.step for one in windows(text)] == [90, 100, 110, 120]


def test_deepspeeds_rate_is_the_mean_since_the_line_before() -> None:
    """8 steps of 1 s, 10 of 2 s, the last of each 4 s: a batch of 100."""
    text = TIMER.format(10, 100.0, 25.0, 1) + TIMER.format(20, 100 * 18 / 28, 25.0, 1)
    assert [one.values["samples_per_second"] for one in windows(text)] == [
        pytest.approx(100),
        pytest.approx(50),
    ]


def test_deepspeeds_rate_of_a_step_counts_where_there_is_no_mean() -> None:
    (only,) = windows(TIMER.format(2, "-inf", 25.0, 1))
    assert only.values["samples_per_second"] == 25


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("is_before", [True, False])
def test_what_the_program_prints_itself_belongs_to_the_frameworks_next_step(
    start: int, is_before: bool
) -> None:
    """Before or behind the framework's line of that step, and with steps from 0 or 1."""
    text = ""
    for step in range(1, 41):
        own = f"step {step + start - 1} loss {5 - step / 100}\n"
        framework = TIMER.format(step, 100.0, 90.0, 1) if step % 10 == 0 else ""
        text += own + framework if is_before else framework + own
    found = windows(text)
    assert [one.step for one in found] == [10, 20, 30, 40]
    for one in found:
        assert abs(one.values.get("loss", 4.6) - (5 - one.step / 100)) < 0.011


def test_a_restarted_program_has_losses_of_its_own() -> None:
    lines = [f"step {step} loss {step}\n" + TIMER.format(step, 100.0, 90.0, 1) for step in (5, 10)]
    assert [one.values["loss"] for one in windows("".join(lines + lines))] == [5, 10, 5, 10]


@pytest.mark.parametrize(
    ("flops", "teraflops"),
    [("70.3TFLOPS", 70.3), ("980.5GFLOPS", 0.9805), ("1.2PFLOPS", 1200), ("12.0MFLOPS", 12e-6)],
)
def test_gpt_neox_prints_flops_in_a_unit_of_their_size(flops: str, teraflops: float) -> None:
    line = (
        " samples/sec: 25.1 | iteration 100/  320000 | elapsed time per iteration (ms): 10190.1"
        f" | approx flops per GPU: {flops} | lm_loss: 4.100000E+00 | loss scale: 65536.0 |\n"
    )
    (only,) = windows(line)
    assert only.values["printed_tflops_per_gpu"] == pytest.approx(teraflops)
    assert only.values["loss"] == 4.1


def test_gpt_neox_tells_of_its_parts_validation_and_checkpoints() -> None:
    text = (
        " samples/sec: 25.1 | iteration 100/  320000 | elapsed time per iteration (ms): 900.0 |"
        " lm_loss: 4.1E+00 |\n"
        "time (ms) | forward: 200.00 | backward: 400.00 | batch generator: 20.00 |\n"
        " validation results at iteration 100 | lm_loss value: 4.1 | lm_loss_ppl value: 60 |\n"
        "[x] [INFO] [engine.py:3520:_save_checkpoint] Saving model checkpoint: "
        "/a b/global_step100/mp_rank_00_model_states.pt\n"
        "  successfully loaded /a b/global_step100/mp_rank_00_model_states.pt\n"
    )
    (only,) = windows(text)
    assert only.values["forward_seconds"] == 0.2
    assert only.values["backward_seconds"] == 0.4
    assert only.values["data_seconds"] == 0.02
    assert [one for one in events(text) if one[0] != "length"] == [
        *(("validation", 100), ("saving", 100), ("resumed", 100)),
    ]


def test_megatrons_timers_over_the_ranks_are_lines_of_their_own() -> None:
    text = ITERATION.format(100) + (
        "(min, max) time across ranks (ms):\n"
        "    forward-compute ................................: (94.85, 95.50)\n"
        "    backward-compute ...............................: (200.10, 201.00)\n"
    )
    (only,) = windows(text)
    assert only.values["forward_seconds"] == 0.0955
    assert only.values["backward_seconds"] == 0.201


def test_every_ranks_line_of_a_loaded_checkpoint_is_one_event() -> None:
    line = "{}: [x] [INFO] [Torch] End Load checkpoint from /c/global_step50/x.pt...\n"
    text = "".join(map(line.format, range(8))) + "0: step 51 loss 2.5\n"
    assert events(text) == [("resumed", 50)]


def test_the_bar_of_horovods_imagenet_example_counts_epochs_from_one() -> None:
    bar = (
        "\rTrain Epoch     #{}: {:3}%|##        | {}/100 [{}<00:40,  2.20s/it, loss={}, accuracy=1]"
    )
    text = ""
    for epoch, batch, elapsed, loss in (
        (1, 50, "01:00", 6.5),
        (1, 99, "01:49", 6),
        (2, 50, "1:00", 5),
    ):
        text += bar.format(epoch, batch, batch, elapsed, 7) + bar.format(
            epoch, batch, batch, elapsed, loss
        )
    assert read(text + "\n").format == "horovod"
    assert [(one.step, one.values) for one in windows(text + "\n")] == [
        (50, {"loss": 6.5}),
        (99, {"loss": 6, "seconds": 1}),
        (150, {"loss": 5}),
    ]


def test_of_two_engines_the_first_one_counts_and_has_no_speed() -> None:
    """RLHF trains an actor and a critic: each prints its step, one after the other."""
    text = "".join(
        STEP.format(step).replace("skipped=0", f"skipped={7 * number}")
        + TIMER.format(step, 85.0 + number, 90.0, 1)
        for step in (10, 20, 30)
        for number in (0, 1)
    )
    found = windows(text)
    assert [one.step for one in found] == [10, 20, 30]
    assert sum(one.values["skipped"] for one in found) == 0
    assert [one.values.get("samples_per_second") for one in found] == [85, None, None]
    assert ("engines", None) in events(text)


def test_deepspeed_chat_times_a_step_of_both_engines() -> None:
    line = (
        "|E2E latency=3.75s |Gather latency=0.00s (0.00%) |Generate time=2.43s (66.49%) |Training "
        "time=1.00s (27.44%) |Others=0.22 (6.07%)|CurSamplesPerSec=16.5 |AvgSamplesPerSec=16.25\n"
        "epoch: 0|step: {}|ppo_ep: 1|act_loss: 0.25|cri_loss: 0.5|unsuper_loss: 0.0\n"
    )
    text = "".join(line.format(step) for step in range(9))
    text += STEP.format(10) + TIMER.format(10, 85.0, 85.0, 1) + STEP.format(10) + line.format(9)
    found = windows(text)
    assert [one.step for one in found] == [*range(1, 11)]
    assert {one.values["samples_per_second"] for one in found} == {16.5}
    assert found[-1].values["loss"] == 0.25


def test_lines_with_and_without_a_label_are_kept() -> None:
    timers = "0: time (ms) | forward-compute: 94.85 | backward-compute: 200.54 |\n"
    found = windows("".join(ITERATION.format(step) + timers for step in range(10, 5000, 10)))
    assert [one.step for one in found] == [*range(10, 5000, 10)]
    for one in found:
        assert {"loss", "forward_seconds"} <= one.values.keys()


def test_lines_with_values_that_are_not_used_are_counted() -> None:
    log = read("step 1 loss 2.5\n" + "loss 2.5\n" * 3 + "step 2 loss 2.5\nsaved 7 files\n")
    assert (log.unused, log.unused_line) == (3, 2)


def test_a_line_that_two_ranks_wrote_teaches_no_layout() -> None:
    good = " iteration {}/ 500 | consumed samples: 8 | elapsed time per iteration (ms): 9 |\n"
    mixed = good.replace("8 |", "8 iteration 1{}/ 500 |")
    text = "".join((mixed if 300 <= step < 400 else good).format(step, step) for step in range(500))
    assert not {one.step for one in windows(text)} & set(range(300, 400))


@pytest.mark.parametrize("count", [10, 400])
def test_a_step_behind_the_last_one_is_damaged(count: int) -> None:
    line = " iteration {}/ 500 | elapsed time per iteration (ms): 9 | lm loss: 2 |\n"
    steps = [*range(1, count), 10**14, *range(count, 500)]
    assert [one.step for one in windows("".join(map(line.format, steps)))] == [*range(1, 500)]


def test_an_mfu_between_one_and_two_without_a_unit_is_unknown() -> None:
    """1.018 is a share that cannot be, or 1 %."""
    for printed, shown in (("1.018", None), ("0.5", 0.5), ("42.0", 0.42), ("1.5%", 0.015)):
        (only,) = windows(f"step 10 loss 4.1 step_time 0.5s mfu {printed}\n")
        assert only.values.get("printed_mfu") == shown


def test_a_line_that_one_format_takes_and_another_reads_is_not_damaged() -> None:
    line = "Training epoch 0, iteration {}/149 | global_step: {} | reduced_train_loss: 1.2 | "
    log = read("".join((line + "train_step_timing in s: 0.5\n").format(x, x) for x in range(9)))
    assert log.dropped == 0


def test_validations_that_count_samples_do_not_count_as_lines_of_the_training() -> None:
    text = "".join(
        f"Train Epoch: {x} [ 784/18783 (4%)] Loss: 4.1\nEval Epoch: {x} [784 / 4634]\tLoss: 4.2\n"
        for x in range(1, 4)
    )
    assert [one.step for one in windows(text)] == [1, 2, 3]


def test_skipped_steps_are_since_the_line_that_counted_them_before() -> None:
    """A program's own line of each step stands between those of DeepSpeed."""
    records = [Window(step, {"loss": 1.0}) for step in range(1, 10)]
    records.append(Window(10, {"loss": 1.0, "skipped": 7.0}))
    assert undamaged([Window(0, {"skipped": 0.0}), *records]).notes == ()


def test_only_lines_of_pix2pix_count_its_epochs() -> None:
    """Each 100 of 180 samples an epoch; the line of a checkpoint counts since the start."""
    text = "batch_size: 1\n"
    for number in range(100, 1801, 100):
        epoch, iters = divmod(number - 1, 180)
        text += f"(epoch: {epoch + 1}, iters: {iters + 1}, time: 0.5, data: 0.1) G: 1.0\n"
        text += f"saving the model at the end of epoch {epoch + 1}, iters {180 * (epoch + 1)}\n"
    assert [one.step for one in windows(text)] == [*range(100, 1801, 100)]


def test_losses_that_come_behind_all_states_of_the_bar_have_its_speed() -> None:
    """Standard output was a file, whose buffer was written at the end: 2 s a step."""
    text = "\r".join(
        f"{step}%|#| {step}/100 [{2 * step // 60:02d}:{2 * step % 60:02d}<00:10,  2.50s/it]"
        for step in range(101)
    )
    for step in range(10, 101, 10):
        text += f"\n{{'loss': '{9 - step / 50}', 'epoch': '{step / 100}'}}"
    text += "\n{'train_runtime': '230', 'train_steps_per_second': '0.435', 'epoch': '1'}\n"
    found = windows(text)
    assert [one.step for one in found] == [*range(10, 101, 10)]
    speeds = [one.values["seconds"] for one in found[:-1]]  # too few states are behind it
    assert speeds == pytest.approx([2] * 9, rel=0.05)


def test_lightning_goes_on_inside_an_epoch_with_a_bar_that_does_not_say_which() -> None:
    def bar(title: str, step: int, total: str) -> str:
        return f"{title}: |#| {step}/{total} [00:{step:02d}<00:09, 1.0it/s, train_loss=2.0]\r"

    whole = "".join(bar("Epoch 2", step, "20").replace("|#|", "9%|#|") for step in range(1, 21))
    part = "".join(bar("Training", step, "?") for step in range(11, 21))
    assert [one.step for one in windows(part + whole + "\n")] == [*range(31, 61)]
    assert ("lines", None) in events(part + "\n")  # whose steps are unknown


def test_epochs_of_mlperf_are_no_steps_where_the_batch_may_be_of_tokens() -> None:
    text = (
        ':::MLLOG {"key": "submission_benchmark", "value": "NAME"}\n'
        ':::MLLOG {"key": "global_batch_size", "value": 100}\n'
        ':::MLLOG {"key": "train_samples", "value": 1000}\n'
    )
    for epoch in range(1, 4):
        time = 1_700_000_000_000 + 60_000 * epoch
        text += (
            f':::MLLOG {{"key": "eval_accuracy", "time_ms": {time}, "value": 0.5, '
            f'"metadata": {{"epoch_num": {epoch}}}}}\n'
        )
    assert [one.step for one in windows(text.replace("NAME", "ssd"))] == [10, 20, 30]
    assert windows(text.replace("NAME", "transformer")) == []
