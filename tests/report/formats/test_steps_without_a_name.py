"""Lines that do not name their step: the number that rises evenly, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clusterjobs.report.logs.general.unnamed import form_with_step
from clusterjobs.report.logs.log import read_log, with_unnamed_steps
from clusterjobs.report.logs.records import Log, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job

Line = Callable[[int], str]


def loss(number: int) -> float:
    return 9 / (1 + number / 50)


def read(line: Line, first: int = 1, count: int = 40, every: int = 1) -> Log:
    numbers = range(first, first + count * every, every)
    blocks = ["".join(f"{line(number)}\n" for number in numbers).encode()]
    log = read_log(blocks)
    assert not log.format, "the lines name their step"
    return with_unnamed_steps(log, lambda: blocks)


def steps_of(log: Log) -> list[int]:
    return [one.step for one in log.records if isinstance(one, Window)]


@pytest.mark.parametrize(
    "line",
    [
        lambda x: f"[{x}] loss={loss(x):.3f}",
        lambda x: f"{x:6} | loss {loss(x):.4f} | 512.3 tokens/s",
        lambda x: f"#{x} loss: {loss(x):.2e}",
        lambda x: f"2026-01-02 10:00:{x % 60:02} I0102 [{x}] total_loss={loss(x)}, lr=1e-4",
        lambda x: f"{x} samples {x * 64}: loss {loss(x):.4f}",
        lambda x: f"samples {x * 64} tokens {x * 65536:,} ({x}) loss {loss(x):.4f}",
        lambda x: f"Batch [{x - 1}-{x}] speed: 900.1 samples/sec loss={loss(x):.4f}",
        lambda x: f"update{x}: cost={loss(x):.4f}",
        lambda x: f"训练 {x}：loss={loss(x):.4f}",
        lambda x: f"{x}/1000 {x // 10}% loss {loss(x):.4f}",
        lambda x: f"loss {x} {loss(x):.4f}",
    ],
)
@pytest.mark.parametrize(("first", "every"), [(1, 1), (100, 100)])
def test_the_number_that_rises_evenly_is_the_step(line: Line, first: int, every: int) -> None:
    log = read(line, first, 40, every)
    assert steps_of(log) == list(range(first, first + 40 * every, every))
    last = [one for one in log.records if isinstance(one, Window)][-1]
    assert last.values["loss"] == pytest.approx(loss(last.step), abs=0.01)
    [note] = [one for one in make_run(log, Job(name="")).notes if "do not name" in one]
    assert line(first).strip()[-20:] in note  # the user sees what was taken for it


@pytest.mark.parametrize(
    "line",
    [
        lambda x: f"processed {x} documents",
        lambda x: f"[{x}/100] Compiling kernel.cu",
        lambda x: f"worker {x} of 40 is ready, 3.2 s",
        lambda x: f"{x}% loss {loss(x):.4f}",
        lambda x: f"{x} s: loss {loss(x):.4f}",
        lambda x: f"10:{x:02}:00 loss {loss(x):.4f}",
        lambda x: f"loss {loss(x):.4f} id {x * x % 97}",
        lambda x: f"{x * 64} samples, loss {loss(x):.4f}",
        lambda x: f"[{x}] validation loss={loss(x):.3f}",
        lambda x: f"-{x} loss {loss(x):.4f}",
        lambda x: f"v1.{x} loss {loss(x):.4f}",
    ],
)
def test_other_numbers_are_no_steps(line: Line) -> None:
    log = read(line)
    assert not log.format
    assert not log.assumed


def test_epochs_are_no_steps() -> None:
    log = read(lambda x: f"epoch {x} done: train loss 0.{900 - x}, lr 1e-3")
    [note, *_] = make_run(log, Job(name="")).notes
    assert "the steps are unknown" in note


def test_a_restart_goes_back() -> None:
    def line(x: int) -> str:
        return f"[{x if x <= 30 else x - 10}] loss={loss(x):.3f}"

    assert steps_of(read(line)) == [*range(1, 31), *range(21, 31)]


def test_too_few_lines_show_nothing() -> None:
    text = b"".join(b"[%d] loss=3.%d\n" % (x, x) for x in range(7))
    assert form_with_step(text) is None
    assert form_with_step(text + b"[7] loss=3.7\n") is not None


def test_hostile_lines_take_no_time() -> None:
    assert form_with_step(b"1-" * 100_000 + b"\n" + b"[1" * 100_000 + b" loss=1\n" * 50) is None
