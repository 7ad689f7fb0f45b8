"""Progress bars of several speeds and intervals: the right steps and speed, or none.

The order of the texts is that of real trainings: the Trainer wipes its bar, prints, and draws the
bar again; Lightning draws each state twice; a program that prints by itself prints behind the bar.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Log, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job

STEPS_PER_EPOCH = 200


class Training(NamedTuple):
    """So many steps a second; a line every so many; tqdm draws ten times a second at most."""

    rate: float
    every: int
    steps: int = 600

    def bar(self, step: int, title: str = "", rest: str = "", total: int = 0) -> str:
        elapsed = int(step / self.rate)
        time = f"{elapsed // 60:02}:{elapsed % 60:02}"
        total = total or self.steps
        return (
            f"\r{title}{100 * step // total:3}%|##   | {step}/{total} [{time}<09:59, 1it/s{rest}]"
        )

    def is_drawn(self, step: int) -> bool:
        every = max(1, int(self.rate / 10))
        return step % every == 0

    def line(self, step: int) -> str:
        epoch = float(f"{step / STEPS_PER_EPOCH:.4g}")
        return f"{{'loss': '{1 + 1 / step:.4g}', 'grad_norm': '1.5', 'epoch': '{epoch:g}'}}\n"

    def end(self) -> str:
        runtime, epochs = self.steps / self.rate, self.steps / STEPS_PER_EPOCH
        return (
            f"{{'train_runtime': '{runtime:.4g}', 'train_samples_per_second': '9', "
            f"'train_steps_per_second': '{self.rate:.4g}', 'epoch': '{epochs:.4g}'}}\n"
        )


def trainer(one: Training) -> str:
    """Of the Trainer with its own bar."""
    text = one.bar(0)
    for step in range(1, one.steps + 1):
        text += one.bar(step) if one.is_drawn(step) else ""
        if step % one.every == 0:
            text += f"\r      \r{one.line(step)}{one.bar(step)}"
    return f"{text}\n{one.end()}"


def printed(one: Training) -> str:
    """Of a program that prints its lines itself, behind the bar, at once."""
    text = one.bar(0)
    for step in range(1, one.steps + 1):
        text += one.bar(step) if one.is_drawn(step) else ""
        text += one.line(step) if step % one.every == 0 else ""
    return f"{text}\n{one.end()}"


def buffered(one: Training) -> str:
    """The lines come in bursts of 90, from a buffer."""
    text, waiting = one.bar(0), []
    for step in range(1, one.steps + 1):
        text += one.bar(step) if one.is_drawn(step) else ""
        waiting += [one.line(step)] if step % one.every == 0 else []
        if len(waiting) == 90:
            text, waiting = text + "".join(waiting), []
    return f"{text}\n{''.join(waiting)}{one.end()}"


def without_bar(one: Training) -> str:
    return "".join(map(one.line, range(one.every, one.steps + 1, one.every))) + one.end()


TRAININGS = [Training(rate, every) for rate in (0.2, 2, 15) for every in (1, 10, 50)]


def read(text: str) -> Log:
    data = text.encode()
    return read_log([data[start : start + 1000] for start in range(0, len(data), 1000)])


@pytest.mark.parametrize("one", TRAININGS, ids=str)
@pytest.mark.parametrize("program", [trainer, printed, buffered, without_bar])
def test_the_trainers_lines_have_the_right_steps_and_speed_or_none(program, one: Training) -> None:
    log = read(program(one))
    found = [window for window in log.records if isinstance(window, Window)]
    assert [window.step for window in found] == [*range(one.every, one.steps + 1, one.every)]
    for window in found:
        assert window.values["loss"] == pytest.approx(1 + 1 / window.step, rel=1e-3)
        assert window.values.get("seconds", 1 / one.rate) == pytest.approx(1 / one.rate, rel=0.05)
    speed = make_run(log, Job()).rates.get("seconds")
    if program is trainer and one.rate < 15:
        assert speed is not None
    assert speed is None or speed.median == pytest.approx(1 / one.rate, rel=0.05)


@pytest.mark.parametrize("one", TRAININGS, ids=str)
@pytest.mark.parametrize("times", [1, 2])
def test_a_bar_with_a_loss_has_the_right_steps_and_speed_or_none(one: Training, times: int) -> None:
    text, before = "", "9.0"
    for step in range(one.every, one.steps + 1, one.every):
        epoch, done = divmod(step - 1, STEPS_PER_EPOCH)
        own = f"{1 + 1 / step:.4f}"
        elapsed = one.bar(done + 1, f"Epoch {epoch}: ", f", v_num=0, train_loss={before}", 200)
        text += elapsed if times == 2 else ""
        text += one.bar(done + 1, f"Epoch {epoch}: ", f", v_num=0, train_loss={own}", 200)
        before = own
    log = read(f"{text}\n")
    found = [window for window in log.records if isinstance(window, Window)]
    assert log.format == "lightning"
    assert [window.step for window in found] == [*range(one.every, one.steps + 1, one.every)]
    for window in found:
        assert window.values["loss"] == pytest.approx(1 + 1 / window.step, rel=1e-3)
        assert window.values.get("seconds", 1 / one.rate) == pytest.approx(1 / one.rate, rel=0.05)


def test_a_bar_without_a_total_has_steps_and_a_speed() -> None:
    text = "".join(
        f"\r{step}it [{step // 60:02}:{step % 60:02},  1.00it/s, loss=2.5]" for step in range(100)
    )
    found = [window for window in read(f"{text}\n").records if isinstance(window, Window)]
    assert [window.step for window in found] == [*range(1, 100)]
    assert {window.values.get("seconds") for window in found} == {1.0, None}


def test_bars_of_other_work_are_no_training() -> None:
    text = "".join(
        f"\rMap: {n}%|##  | {n}/100 [00:{n:02}<00:40, 2.20 examples/s]" for n in range(60)
    )
    assert read(f"{text}\n").records == ()


def test_what_waits_for_its_speed_belongs_to_the_attempt_before() -> None:
    one = Training(2, 1, 20)
    start = "clusterjobs: attempt 2, from checkpoint step-10\n"
    kinds = [type(record).__name__ for record in read(f"{printed(one)[:2000]}\n{start}").records]
    assert kinds[-1] == "Event"
    assert "Window" in kinds


@pytest.mark.parametrize("program", ["trainer", "lightning"])
def test_the_time_of_a_validation_is_no_time_of_steps(program: str) -> None:
    """At a step a second, 30 s of validation after every 100 steps."""
    text = ""
    for step in range(1, 1001):
        seconds = step + (step - 1) // 100 * 30
        clock = f"[{seconds // 60:02}:{seconds % 60:02}<09:59, 1it/s"
        if program == "trainer":
            text += f"\r{step // 10}%|##  | {step}/1000 {clock}]"
            if step % 10 == 0:
                text += f"\r    \r{{'loss': '2.5', 'epoch': '{step / 1000:g}'}}\n"
                text += f"\r{step // 10}%|##  | {step}/1000 {clock}]"
            if step % 100 == 0:
                text += f"{{'eval_loss': '2.5', 'epoch': '{step / 1000:g}'}}\n"
        else:
            text += f"\rEpoch 0: {step // 10}%|##  | {step}/1000 {clock}, v_num=0, train_loss=2.5]"
            if step % 100 == 0:
                text += "\rValidation: 50%|##  | 1/2 [00:01<00:01, 1it/s]"
    speed = make_run(read(f"{text}\n"), Job()).rates["seconds"]
    assert speed.p90 == pytest.approx(1, rel=0.05)


def test_batches_behind_the_total_of_lightnings_bar_count() -> None:
    """With accumulation and max_steps, its total is that of steps, and it counts batches."""
    text = ""
    for epoch, total in enumerate((60, 40, 20)):
        for done in range(1, 81):
            is_inside = done <= total
            bar = f"{done}%|##  | {done}/{total}" if is_inside else f"|     | {done}/?"
            clock = f"[{done // 60:02}:{done % 60:02}<00:00, 1.00it/s, train_loss=2.5]"
            text += f"\rEpoch {epoch}: {bar} {clock}"
    log = read(f"{text}\n")
    steps = [one.step for one in log.records if isinstance(one, Window)]
    assert steps == [*range(1, 241)]
    speed = make_run(log, Job()).rates["seconds"]
    assert speed.median == pytest.approx(1, rel=0.05)


def bar(title: str, done: int, total: int, seconds: float, behind: str = "") -> str:
    """A state as tqdm's format_meter prints it."""
    clock = f"{int(seconds) // 60:02}:{int(seconds) % 60:02}<09:59,  1.00it/s{behind}"
    return f"\r{title}{100 * done // total:3}%|##  | {done}/{total} [{clock}]"


@pytest.mark.parametrize(
    "inner", ["Training: ", "Iteration: ", "Epoch {} train: ", "Epoch {}: ", ""]
)
@pytest.mark.parametrize("outer", ["Epoch: ", "epochs: ", "Training epochs: "])
@pytest.mark.parametrize("rate", [0.2, 2, 15])
@pytest.mark.parametrize("is_cleared", [False, True])
def test_a_bar_of_epochs_is_no_bar_of_steps(
    outer: str, inner: str, rate: float, is_cleared: bool
) -> None:
    """As nested loops draw them: the cursor moves, and the last state of a bar is shown or not."""
    epochs, steps = 3, 300
    text, passed = bar(outer, 0, epochs, 0), 0.0
    for epoch in range(epochs):
        shown = inner.format(epoch)
        for done in range(steps + (not is_cleared)):
            if done % max(1, round(rate / 10)) == 0:
                loss = f", loss={9 / (1 + epoch * steps + done):.4f}" if done else ""
                text += f"\n{bar(shown, done, steps, done / rate, loss)}\x1b[A"
        passed += steps / rate
        text += bar("Validation: ", 40, 40, 7) + bar(outer, epoch + 1, epochs, passed)
    run = make_run(read(f"{text}\n"), Job())
    last = (epochs - 1) * steps + steps - is_cleared
    assert run.windows[-1].step == pytest.approx(last, abs=2)
    assert run.windows[-1].values["loss"] == pytest.approx(9 / (1 + last), rel=0.02)
    assert run.rates["seconds"].median == pytest.approx(1 / rate, rel=0.05)


def test_numbers_of_images_in_thousands_are_no_steps() -> None:
    text = "".join(
        f"\rTrain: {n}%|##  | {n * 0.288:.1f}k/28.8k [00:{n % 60:02}<01:29, 288img/s, loss=2.5]"
        for n in range(100)
    )
    assert not read(f"{text}\n").format
