"""A single value that the lines around it contradict is named, and is no number of the report."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from clusterjobs.report.exports import run_data
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, Run
from tests.report.formats.test_forms_of_programs import FORMS, Form

STEPS = range(10, 610, 10)
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def lines() -> list[str]:
    return [
        f"step {step}/600 loss {11 / (1 + step / 200):.4f} step_time 0.50 s memory 40.1GiB"
        for step in STEPS
    ]


def run_of(text: list[str]) -> Run:
    return make_run(read_log(["\n".join([*text, ""]).encode()]), Job(gpus=8, nodes=1))


def last_loss(run: Run) -> float | None:
    return [one.values.get("loss") for one in run.windows][-1]


@pytest.mark.parametrize(
    ("place", "old", "new", "named", "steps", "loss"),
    [
        (20, "step 210", "step 910", "step 910", 600, 2.75),
        (20, "step 210", "step 21", "step 21", 600, 2.75),
        (5, "step 60", "step 960", "step 960", 600, 2.75),
        (0, "step 10", "step 1000", "step 1,000", 600, 2.75),
        (-1, "step 600", "step 660", "step 660", 590, 2.7848),
        (-1, "step 600", "step 60", "step 60", 590, 2.7848),
        (-1, "loss 2.7500", "loss 500", "loss 500 at step 600", 600, None),
        (0, "loss 10.4762", "loss 2000", "loss 2,000 at step 10", 600, 2.75),
        (30, "memory 40.1GiB", "memory 70.1GiB", "memory 70.1 GiB at step 310", 600, 2.75),
    ],
)
def test_a_value_that_its_neighbours_contradict_is_named(
    place: int, old: str, new: str, named: str, steps: int, loss: float | None
) -> None:
    text = lines()
    assert old in text[place]
    text[place] = text[place].replace(old, new)
    run = run_of(text)
    assert f"Left out, since the lines around say otherwise: {named}." in run.notes
    assert run.steps == steps
    assert run.lost_steps == 0
    assert last_loss(run) == loss
    assert run.peak_memory_gib == pytest.approx(40.1)


def test_the_last_step_stays_where_the_line_before_it_is_damaged() -> None:
    text = lines()
    text[-2] = text[-2][:4]
    assert run_of(text).steps == 600


def test_the_time_of_a_few_lines_is_not_that_of_all_steps() -> None:
    """A clock of whole seconds ends before the steps; one line of many has a time."""
    text = [f"step {step} loss 3.5" for step in STEPS]
    assert run_of([f"{text[0]} step_time 0.5 s", *text[1:]]).paid_seconds is None
    timed = [
        f"2026-03-06 12:{step // 60:02}:{step % 60:02} {line}"
        for step, line in zip(STEPS, text, strict=True)
    ]
    assert run_of(timed).paid_seconds == pytest.approx(600, rel=0.06)
    assert run_of([*timed[:40], *text[40:]]).paid_seconds is None


def test_a_restart_and_a_curve_that_jumps_are_no_damage() -> None:
    text = [*lines()[:40], *lines()[35:]]
    text = [line.replace("loss 2.75", "loss 3.05") for line in text]
    run = run_of(text)
    assert not any("lines around" in note for note in run.notes)
    assert run.steps == 600
    assert run.lost_steps == 50


def test_a_long_time_that_one_line_alone_says_makes_the_goodput_unknown() -> None:
    text = lines()
    assert run_of(text).goodput == pytest.approx(1)
    text[30] = text[30].replace("0.50 s", "500 s")
    run = run_of(text)
    assert run.goodput is None
    assert any("the time of a step in one line alone would be 8 min 20 s" in n for n in run.notes)
    assert run.rates["seconds"].median == 0.5
    for place in range(10, 50, 8):  # several lines confirm each other
        text[place] = text[place].replace("0.50 s", "20 s")
    text[30] = text[30].replace("500 s", "0.50 s")
    assert run_of(text).goodput is not None


def test_a_clock_that_jumps_makes_the_goodput_unknown() -> None:
    def text(jump: int) -> list[str]:
        return [
            f"2026-03-06 {12 + (step > 300) * jump}:{step // 60:02}:{step % 60:02},500 "
            f"step {step} loss 3.5"
            for step in STEPS
        ]

    assert run_of(text(0)).goodput == pytest.approx(1)
    assert run_of(text(2)).goodput is None
    assert run_of(text(2)).rates["seconds"].median == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step {} loss 3,4112 tok/s 1.234,5", 1234.5),
        ("step {} loss 3,4112 tok/s 16,011", None),  # either 16.011 or 16011
        ("step {} loss 3,4112 tok/s 16.011", None),
        ("step {} loss 3.4112 tok/s 16,011", 16011.0),
    ],
)
def test_a_number_beside_decimal_commas_is_read_if_it_has_one_meaning(
    line: str, expected: float | None
) -> None:
    run = run_of([line.format(step) for step in range(1, 30)])
    assert run_data(run)["tokens_per_second"] == expected
    assert last_loss(run) == pytest.approx(3.4112)


def swap(chance: random.Random, line: str) -> str:
    found = [*NUMBER.finditer(line)]
    if len(found) < 2:
        return line
    one, other = sorted(chance.sample(found, 2), key=lambda match: match.start())
    between = line[one.end() : other.start()]
    return line[: one.start()] + other[0] + between + one[0] + line[other.end() :]


def digit(chance: random.Random, line: str) -> str:
    at = chance.choice([*re.finditer(r"\d", line)] or [None])
    return (
        line if at is None else line[: at.start()] + chance.choice("0123456789") + line[at.end() :]
    )


def cut(chance: random.Random, line: str) -> str:
    return line[: chance.randrange(len(line) + 1)]


@pytest.mark.parametrize("damage", [swap, digit, cut])
@pytest.mark.parametrize("seed", range(4))
def test_one_damaged_line_gives_no_wrong_speed_or_step(
    damage: Callable[[random.Random, str], str], seed: int
) -> None:
    chance = random.Random(f"{damage.__name__} {seed}")
    for name in chance.sample(sorted(FORMS), 12):
        form = FORMS[name]
        if "epoch" in name or form.every == 0:
            continue  # a damaged length of an epoch moves all later steps
        text = lines_of(form)
        true = run_data(run_of(text))
        text[chance.randrange(len(text))] = damage(chance, chance.choice(text))
        found = run_data(run_of(text))
        for key in ("step_seconds", "samples_per_second", "tokens_per_second"):
            is_right = true[key] and found[key] == pytest.approx(true[key], rel=0.05)
            assert found[key] is None or is_right, name
        if true["steps"]:
            assert found["steps"] is None or abs(found["steps"] - true["steps"]) <= form.every, name


def lines_of(form: Form) -> list[str]:
    first = form.every if form.first is None else form.first
    steps = range(first, first + form.every * form.count, form.every)
    return "".join(map(form.line, steps)).split("\n")[:-1] or [""]
