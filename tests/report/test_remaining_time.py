"""How long the rest of a training takes."""

from __future__ import annotations

import pytest

from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Log, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, Run


def run(total_steps: int | None) -> Run:
    windows = tuple(Window(10 * n, {"seconds": 0.5}, 10) for n in range(1, 11))
    return make_run(Log("own script", windows), Job(total_steps=total_steps))


def test_the_rest_takes_its_steps_at_the_steady_speed() -> None:
    assert run(1000).remaining_seconds == 900 * 0.5


def test_a_training_that_has_done_all_its_steps_has_no_rest() -> None:
    assert run(100).remaining_seconds == 0
    assert run(50).remaining_seconds == 0


def test_without_a_length_or_a_speed_it_is_unknown() -> None:
    assert run(None).remaining_seconds is None
    windows = (Window(10, {"loss": 2.0}, 10),)
    assert make_run(Log("own script", windows), Job(total_steps=99)).remaining_seconds is None


MEGATRON = b" iteration %d/ 500 | elapsed time per iteration (ms): 350.0 | lm loss: 4.1 |\n"
BAR = b" 2%%| | %d/250 [00:%02d<01:00, 1.00it/s]\n{'loss': '2.1', 'epoch': '0.1'}\n"


@pytest.mark.parametrize(
    ("text", "length"),
    [
        (b"step 5/100 loss 3.5\n", 100),
        (b"step 5 / 100, loss 3.5\n", 100),
        (b"epoch 2 step 5/100 loss 3.5\n", None),  # it may be that of an epoch
        (b"step 5/0 loss 3.5\n", None),
        (b"step 120/100 loss 3.5\n", None),
        (b"step 5/2.5 loss 3.5\n", None),
        (MEGATRON % 100, 500),
        (b"".join(MEGATRON % step for step in range(1, 400)), 500),
        (MEGATRON % 1 + (MEGATRON % 2).replace(b"500", b"900"), 900),
        (BAR % (5, 5) + BAR % (10, 10), 250),
    ],
)
def test_the_length_is_what_the_log_says_last(text: bytes, length: int | None) -> None:
    assert make_run(read_log([text]), Job()).total_steps == length


def test_the_spec_says_it_before_the_log() -> None:
    assert make_run(read_log([b"step 5/100 loss 3.5\n"]), Job(total_steps=50)).total_steps == 50


def test_a_length_that_changes_in_the_middle_is_found() -> None:
    later = [(MEGATRON % step).replace(b"/ 500", b"/ 9000") for step in range(400, 800)]
    text = b"".join([*(MEGATRON % step for step in range(1, 400)), *later])
    run = make_run(read_log([text]), Job())
    assert (run.total_steps, run.steps, len(run.windows)) == (9000, 799, 799)
