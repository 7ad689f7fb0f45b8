"""How long the rest of a training takes."""

from __future__ import annotations

from clusterjobs.report.job import Job
from clusterjobs.report.make_run import make_run
from clusterjobs.report.records import Log, Window
from clusterjobs.report.run import Run


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
