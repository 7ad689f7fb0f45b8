"""Lines that programs of one's own print, as many do, without any key of the spec."""

from __future__ import annotations

import pytest

from clusterjobs.report.logs.formats.common import Common
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Event, Window

LINES: dict[str, tuple[int, dict[str, float]]] = {
    "step 12/50 loss 3.4 samples/s 51.2": (12, {"loss": 3.4, "samples_per_second": 51.2}),
    "step 12 loss 3.4 51.2 samples/s 1234 tokens/s": (
        12,
        {"loss": 3.4, "samples_per_second": 51.2, "tokens_per_second": 1234},
    ),
    "step 12 samples/s 51.2 tokens/s 1,234": (
        12,
        {"samples_per_second": 51.2, "tokens_per_second": 1234},
    ),
    "iter 10: loss 3.9, time 110.5ms, mfu 12.3%": (10, {"loss": 3.9, "seconds": 0.1105}),
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
    (window,) = (one for one in Common().read(line, None) if isinstance(one, Window))
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
    assert list(Common().read(line, None)) == []


@pytest.mark.parametrize(
    "line", ["step 3 | val loss 2.5", "step=3 eval_loss=2.5", "step 3 validation/loss: 2.5"]
)
def test_a_loss_of_the_validation_is_not_that_of_the_training(line: str) -> None:
    assert list(Common().read(line, None)) == [Event("validation", 3, 2.5)]
