"""Lines that are read many at once say what they say when each is read alone."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable

import pytest

from clusterjobs.report.logs.forms import Form, Forms, Rows
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Log, Window

MEGATRON = (
    *("consumed samples", "elapsed time per iteration (ms)", "lm loss", "loss scale", "TFLOPs"),
    *("grad norm", "global batch size", "samples per second", "number of skipped iterations"),
)
NUMBERS = ("1.5", "0", "-2.25E-01", "nan", "inf", "1e5", "7", "70.3TFLOPS", "1.2.3", "-", "", "x")
STARTS = (
    "",
    " ",
    " [2025-03-06 12:00:07.500000]",
    "3: ",
    "[rank3]: ",
    " [2025-99-06 12:00:07]",
    "a|b ",
)
ENDS = (" |", " | ", "", " | x", " | lm loss: 1 |", " |\r", " |\r 4: iteration 9/ 9 | lm loss: 1 |")


def megatron(chance: random.Random, step: int) -> str:
    is_odd = chance.random() < 0.03
    names = chance.sample(MEGATRON, 6) if is_odd else MEGATRON
    fields = " |".join(
        f" {name}: {chance.choice(NUMBERS) if is_odd else f'{1 + chance.random():.3f}'}"
        for name in names
    )
    start, end = (chance.choice(STARTS), chance.choice(ENDS)) if is_odd else (STARTS[2], ENDS[0])
    return f"{start} iteration {step:8}/  500000 |{fields}{end}\n"


OWN = (
    "step {n}/9000 loss {x} samples/s {x}",
    "2026-03-0{d} 1{d}:00:00,25{d} - INFO - iter {n} | loss: {x} | {x} ms | {x}% MFU | {x} tok/s",
    "{d}: Step {n} | LR={x} | tokens/s/gpu: {n} | loss 3,{n}",
    "\x1b[32mstep: {n}\x1b[39m  loss:  {x}  memory: {x}GiB({x}%)  tps: {n}  mfu: {x}%",
    "Epoch [{d}][{n}/9000] lr: {x}, eta: {d}:0{d}:1{d}, time: {x}, memory: {n}, loss: {x}",
    "Train: {d} [ {n}/9000 (  4%)]  Loss: {x} ({x})  Time: {x}s, {x}/s  (0.389s, {x}/s)",
    "step {n} validation loss {x} it/s {x}",
)


def own(chance: random.Random, step: int) -> str:
    form = chance.choice(OWN) if chance.random() < 0.05 else OWN[step // 500 % len(OWN)]
    numbers = ("nan", "-1.5", "1e-05", "2.5", "3", "1,5", "1,024", "0", "x")
    while "{x}" in form or "{d}" in form:
        number = chance.choice(numbers) if chance.random() < 0.02 else f"{chance.random():.4f}"
        form = form.replace("{x}", number, 1).replace("{d}", str(chance.randrange(1, 9)), 1)
    return form.replace("{n}", str(step)) + "\n"


def with_timers(chance: random.Random, step: int) -> str:
    timers = "".join(
        f"    {name} ....: ({chance.random() * 90:.2f}, {chance.random() * 99:.2f})\n"
        for name in ("forward-compute", "backward-compute", "batch-generator")
        if chance.random() > 0.005
    )
    return (
        f" iteration {step:8}/  500000 | elapsed time per iteration (ms): {chance.random():.2f} | "
        f"lm loss: {chance.random():.6E} |\n(min, max) time across ranks (ms):\n{timers}"
    )


def deepspeed(chance: random.Random, step: int) -> str:
    engine = (
        f"[INFO] [Rank 0] step={step}, skipped={step // 100}, lr=[9.62e-06], mom=[(0.9, 0.95)]\n"
    )
    count = step - 500 if step > 1200 else step  # it starts again
    timer = (
        f"[INFO] epoch=0/micro_step={count}/global_step={count}, RunningAvgSamplesPerSec="
        f"{170 + chance.random()}, CurrSamplesPerSec={170 + chance.random()}, "
        "MemAllocated=3.96GB, MaxMemAllocated=22.95GB\n"
    )
    return (engine if chance.random() > 0.01 else "") + (timer if chance.random() > 0.01 else "")


def fairseq(chance: random.Random, step: int) -> str:
    values = {"epoch": 1, "loss": f"{chance.random():.3f}", "wps": f"{9e3 * chance.random():.1f}"}
    values |= {"wpb": "503.6", "bsz": "8", "num_updates": str(step), "lr": "0.0005", "gnorm": "1.2"}
    tag = "train" if chance.random() < 0.005 else "train_inner"
    return f"2026-03-06 00:00:00 | INFO | {tag} | {json.dumps(values)}\n"


def coloured(chance: random.Random, step: int) -> str:
    return (
        f"\x1b[31mstep: {step:6}  \x1b[32mloss:  {chance.random():.5f}  \x1b[33mmemory: "
        f"42.10GiB(53.20%)  \x1b[34mtps: {6000 + step:,}  \x1b[35mmfu: 31.59%\x1b[39m\n"
    )


def of_epochs(chance: random.Random, step: int) -> str:
    epoch, batch = divmod(step, 300)
    return f"Epoch: [{epoch}][{batch:5}/300]\tTime {chance.random():.3f} (0.5)\tLoss 2.5 (2.6)\n"


FORMS = (megatron, with_timers, deepspeed, fairseq, own, coloured, of_epochs)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("kind", ["plain", "labelled", "damaged"])
def test_lines_read_together_say_what_each_says_alone(
    form: Callable[[random.Random, int], str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(f"{form.__name__} {kind}")
    lines = "".join(form(chance, step) for step in range(1, 3000)).splitlines()
    if kind == "labelled":
        lines = [f"{rank}: {line}" for line in lines for rank in range(chance.choice((2, 2, 1)))]
    if kind == "damaged":
        for place in chance.sample(range(len(lines)), 40):
            lines[place] = damaged(chance, lines[place])
        lines += lines[1500:]  # it starts again
    text = "\n".join(lines).encode() + b"\n"
    together = counted_rows(monkeypatch)
    found = read(text)
    monkeypatch.setattr(Forms, "wants", lambda *_: False)
    alone = read(text)
    for one, other in itertools.zip_longest(windows(found), windows(alone)):
        assert repr(one) == repr(other)
    assert found._replace(records=(), dropped=0) == alone._replace(records=(), dropped=0)
    assert sum(together) > 1000


def read(text: bytes) -> Log:
    size = 100_001
    return read_log(text[start : start + size] for start in range(0, len(text), size))


def windows(log: Log) -> list[Window]:
    return [one for one in log.records if isinstance(one, Window)]


def counted_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps were read together, each time."""
    counts: list[int] = []

    def count(form: Form, lines: list[bytes], steps: int) -> Rows | None:
        if rows := reading(form, lines, steps):
            counts.append(steps)
        return rows

    reading = Form.read
    monkeypatch.setattr(Form, "read", count)
    return counts


def damaged(chance: random.Random, line: str) -> str:
    return chance.choice(
        (
            line[: len(line) // 2],
            line + line,
            line.replace("1", "nan"),
            line.replace("0", "7"),
            line.replace("3", "3x"),
            line.replace("2", "99999999"),
            line.replace("5", "5e-05"),
            "validation loss at iteration 5 | lm loss value: 3.4",
            "a line of something else",
        )
    )
