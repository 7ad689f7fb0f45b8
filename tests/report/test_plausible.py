"""No number that cannot be is printed: it is named, with its line."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import pytest
from made_runs import log_of, window

from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Layout, ModelShape
from clusterjobs.report.logs.bounds import MOST_STEPS_A_LINE
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, Run
from clusterjobs.report.text import run_text

SHAPE = {"layers": 24, "hidden": 1024, "heads": 16, "kv_heads": 16, "head_dim": 64, "ffn": 4096}
MODEL = ModelShape(**SHAPE, sequence=1024, vocab=50304)
LAYOUT = Layout(8, 8, 8, 64, "megatron-deepspeed")
JOB = Job(
    gpus=8,
    nodes=1,
    batch=64,
    sequence=1024,
    model=MODEL,
    layout=LAYOUT,
    gpu=find_gpu("A100", 40),
)


def run_of_text(text: str, job: Job = JOB) -> Run:
    return make_run(read_log([text.encode()]), job)


def test_an_efficiency_above_100_percent_is_named_and_not_shown() -> None:
    run = make_run(log_of([window(step, 0.001) for step in range(1, 20)]), JOB)
    assert run.efficiency is None
    assert any("MFU would be " in note and "more than 100.0 %" in note for note in run.notes)
    assert "MFU" not in run_text(run, False).partition("note:")[0]


def test_samples_that_are_taken_for_steps_are_no_steps() -> None:
    counts = range(4_194_304, 20 * 4_194_304, 4_194_304)
    run = make_run(log_of([window(count, 2.5) for count in counts]), JOB)
    assert run.steps is None
    assert run.rates == {}
    assert run.goodput is None
    assert any("the log may count samples or tokens" in note for note in run.notes)


def test_steps_may_be_far_apart() -> None:
    counts = range(MOST_STEPS_A_LINE, 20 * MOST_STEPS_A_LINE, MOST_STEPS_A_LINE)
    assert make_run(log_of([window(count, 1e-4) for count in counts]), JOB).steps == counts[-1]


@pytest.mark.parametrize(("span", "is_shown"), [(200.0, True), (20_000.0, True), (2.0, False)])
def test_steps_take_no_longer_than_the_time_stamps_of_the_log_span(
    span: float, is_shown: bool
) -> None:
    run = make_run(log_of([window(step, 10.0) for step in range(1, 22)], span), JOB)
    assert (run.goodput is not None) == is_shown
    assert any("the time of all steps would be 3 min 20 s" in one for one in run.notes) != is_shown


def test_the_span_is_that_of_the_stamps_of_the_lines_with_steps() -> None:
    lines = [f"2026-11-02 10:{step:02}:00,500 step {step} loss 3.5" for step in range(1, 31)]
    text = "\n".join(["2020-01-01 00:00:00 start", *lines, "2030-01-01 00:00:00 end", ""])
    assert read_log([text.encode()]).span == 29 * 60


def test_a_value_outside_its_bounds_is_named_with_its_line() -> None:
    lines = [
        f"step {step} loss 3.5 step time {(step == 7 and 9e9) or 1.5} s" for step in range(1, 21)
    ]
    run = run_of_text("first line\n" + "\n".join(lines) + "\n")
    assert "Left out, since no seconds can be that: 9e+09 s in line 8." in run.notes
    assert run.rates["seconds"].mean == 1.5


def test_memory_that_the_gpu_does_not_have_is_not_shown() -> None:
    run = make_run(log_of([window(step, memory_gib=41.0) for step in range(1, 20)]), JOB)
    assert run.peak_memory_gib is None
    assert any("memory in GiB would be 41" in note for note in run.notes)


LINES = (
    " [{day} {clock}] iteration {n}/ {n} | consumed samples: {n} | "
    "elapsed time per iteration (ms): {x} "
    "| global batch size: {n} | lm loss: {x} | number of skipped iterations: {n} | "
    "TFLOPs: {x} | samples per second: {x} |",
    "{day} {clock} | INFO | train_inner | epoch 001: {n} / {n} loss={x}, wps={x}, ups={x}, "
    "wpb={x}, bsz={x}, num_updates={n}, lr={x}, train_wall={x}, wall={n}",
    ':::MLLOG {{"time_ms": {n}, "key": "tracked_stats", "value": {{"train_step_time": {x}, '
    '"loss": {x}}}, "metadata": {{"step": {n}, "samples_count": {n}}}}}',
    "step: {n}  loss: {x}  grad_norm: {x}  memory: {x}GiB({x}%)  tps: {x}  tflops: {x}  mfu: {x}%",
    "step {n}/{n} loss {x} samples/s {x} step time {x} s",
    "global_step={n}, RunningAvgSamplesPerSec={x}, CurrSamplesPerSec={x}, MaxMemAllocated={x}GB",
    "[Rank 0] step={n}, skipped={n}, lr=[{x}], mom=[{x}]",
    "  {n}%|###   | {n}/{n} [{m}:{m}<{m}:{m}, {x}it/s, loss={x}]",
    "{{'loss': {x}, 'grad_norm': '{x}', 'epoch': {x}}}",
    "clusterjobs: job 17 ended with exit code 1 after {n} s: failure",
    "clusterjobs: attempt {m}, from checkpoint step-{n}",
)


class Nonsense(NamedTuple):
    """Numbers for the fields of a line."""

    chance: random.Random

    def line(self) -> str:
        text = self.chance.choice(LINES)
        while "{x}" in text or "{n}" in text or "{m}" in text:
            text = text.replace("{x}", self.number(), 1).replace("{n}", self.count(), 1)
            text = text.replace("{m}", f"{self.chance.randint(0, 99):02}", 1)
        day = f"{self.chance.randint(1, 9999):04}-{self.chance.randint(0, 13):02}-11"
        clock = f"{self.chance.randint(0, 24):02}:{self.chance.randint(0, 61):02}:00"
        return (
            text.replace("{day}", day)
            .replace("{clock}", clock)
            .replace("{{", "{")
            .replace("}}", "}")
        )

    def number(self) -> str:
        odd = ("nan", "inf", "-inf", "-1", "0", "1e300", "1e-300", "1,234", "1.2.3", "")
        if self.chance.random() < 0.2:
            return self.chance.choice(odd)
        return f"{self.chance.uniform(0, 10) * 10 ** self.chance.randint(-9, 15):.6g}"

    def count(self) -> str:
        return str(self.chance.randint(0, 10 ** self.chance.randint(0, 18)))


@pytest.mark.parametrize("seed", range(150))
def test_generated_nonsense_gives_no_number_that_cannot_be(seed: int) -> None:
    chance = random.Random(seed)
    lines = [Nonsense(chance).line() for _ in range(chance.randint(1, 80))]
    run = run_of_text("\n".join(lines) + "\n")
    assert run_text(run, True)
    for name, spread in run.rates.items():
        assert math.isfinite(spread.mean), name
        assert 0 <= spread.p10 <= spread.median <= spread.p90, name
    assert run.goodput is None or 0 <= run.goodput <= 1
    assert (run.paid_seconds or 0) <= 3 * 365 * 86_400
    assert (run.remaining_seconds or 0) <= 30 * 365 * 86_400
    assert (run.peak_memory_gib or 0) <= 41
    step = run.rates.get("seconds")
    assert step is None or step.median <= 7 * 86_400
    if run.efficiency:
        assert (run.efficiency.mfu or 0) <= 1
    if run.steps is not None:
        assert run.steps <= MOST_STEPS_A_LINE * len(run.windows)
    assert all(seconds >= 0 for seconds in run.lost_seconds.values())
