"""Foresight as a short block of text, for `plan`."""

from __future__ import annotations

from clusterjobs.commands.foresight.data import no_speed
from clusterjobs.commands.foresight.foresee import Foresight
from clusterjobs.commands.foresight.job import CPU
from clusterjobs.commands.show import printable
from clusterjobs.counted import counted
from clusterjobs.foresight.records import Range
from clusterjobs.foresight.saves import loss_share
from clusterjobs.foresight.training_time import FAILURES, START_NOTE

VERDICTS = {"fits": "fits", "borderline": "borderline", "does_not_fit": "does not fit"}
# Parts of the memory whose names alone do not say what they are.
PARTS = {"communication": "buffers and fragmentation", "context": "CUDA and NCCL"}


def foresight_text(found: Foresight) -> str:
    """A row per question: does it fit, how fast, how long, how much."""
    rows = [
        ("model", f"{short(found.parameters)} parameters", _origin(found)),
        ("memory", *_memory(found)),
        ("step", *_step(found)),
        *([("time", *_time(found))] if found.speed else []),  # what is unknown is said once
        ("checkpoint", *_checkpoint(found)),
        *([("cost", *_cost(found))] if found.time else []),
    ]
    nearest = found.speed.nearest if found.speed else ()
    rows += [("nearest" if n == 0 else "", str(one), "") for n, one in enumerate(nearest)]
    lines = [line for name, value, note in rows for line in _lines(name, value, note)]
    return "foresight\n" + "\n".join(lines)


def _lines(name: str, value: str, note: str) -> list[str]:
    """A value, and below it what it rests on."""
    notes = [f"{'':14}{line}" for line in note.split("\n") if line]
    return [printable(line) for line in (f"  {name:<12}{value}", *notes)]


def _origin(found: Foresight) -> str:
    if found.measured:
        return found.measured.shown()
    if found.speed is None or found.speed.validated:
        return "inside the region of published measurements" if found.speed else ""
    return "not validated: " + "; ".join(found.speed.doubts)


def _memory(found: Foresight) -> tuple[str, str]:
    memory = found.memory
    used = f"{between(memory.gib, 'GiB')} of {number(memory.capacity)} GiB"
    largest = sorted(memory.parts.items(), key=lambda part: -part[1])[:3]
    parts = ", ".join(f"{PARTS.get(name, name)} {number(gib)}" for name, gib in largest)
    remedies = memory.remedies if memory.verdict != "fits" else ()
    notes = [parts, *(["would fit: " + "; or ".join(remedies)] if remedies else [])]
    gpu = found.job.gpu.name
    return f"{VERDICTS[memory.verdict]}: {used} ({gpu})", "\n".join(notes)


def _step(found: Foresight) -> tuple[str, str]:
    speed = found.speed
    if speed is None:
        return f"unknown: {no_speed(found)}", ""
    if found.job.gpu.name.startswith(CPU):
        return between(speed.step_seconds, "s"), ""
    tokens = f"{between(speed.tokens_per_second_per_gpu)} tokens/s per GPU"
    mfu = f"MFU {100 * speed.mfu.low:.0f}-{100 * speed.mfu.high:.0f} %"
    return f"{between(speed.step_seconds, 's')}, {tokens}, {mfu}", ", ".join(map(str, speed.limits))


def _time(found: Foresight) -> tuple[str, str]:
    time = found.time
    if time is None:
        return "unknown: add training: {tokens: 300e9}, or samples, or steps", ""
    text = f"{hours(time.seconds)} for {steps_text(time.steps)}"
    if time.attempts and time.attempts.high > 1:
        low, high = (int(one) - 1 for one in (time.attempts.low, time.attempts.high))
        requeues = f"{low:,} to {high:,} requeues" if low < high else counted(high, "requeue")
        text += f", {requeues} at the time limit"
    notes = f"{FAILURES.short}; {START_NOTE}"
    if not found.saves.interval_steps:
        notes += "; saves at the best interval"
    return text, f"assumed: {notes}"


def _checkpoint(found: Foresight) -> tuple[str, str]:
    saves = found.saves
    text = f"{number(saves.gib)} GiB, saved in {between(saves.save_seconds, 's')}"
    if not saves.is_rate_known:
        text += f" ({saves.rate_note})"
    step = found.speed.step_seconds.mid if found.speed else None
    best = f"best interval: {hours(saves.best_interval)}"
    if step:
        best += f", every {steps_text(int(float(f'{max(1, saves.best_interval.mid / step):.2g}')))}"
    if saves.interval_seconds:
        now, least = (
            loss_share(saves.save_seconds.mid, one.mid, found.between_failures.mid)
            for one in (saves.interval_seconds, saves.best_interval)
        )
        loss = f"saves and failures take {percent(now)} of the time"
        text += f", every {steps_text(saves.interval_steps or 1)}: {loss}"
        best += f": {percent(least)}"
    return text, f"{best} (Young/Daly)"


def _cost(found: Foresight) -> tuple[str, str]:
    if found.cost is None:
        return f"unknown: {found.no_cost}", ""
    usd = found.cost.usd
    return f"${between(usd)}, middle ${number(usd.mid)}", found.cost.price.shown()


def steps_text(count: int) -> str:
    return f"{count:,} step{'' if count == 1 else 's'}"


def between(value: Range, unit: str = "") -> str:
    low, high = (number(one) for one in (value.low, value.high))
    text = low if low == high else f"{low}-{high}"
    return f"{text} {unit}".rstrip()


def number(value: float) -> str:
    """Two digits, which is more than an estimate has; no exponent for large numbers."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def hours(value: Range) -> str:
    return between(*_unit(value))


def minutes(value: Range) -> str:
    return between(value.times(1 / 60), "min")


def _unit(seconds: Range) -> tuple[Range, str]:
    for length, unit in ((172_800, "days"), (7_200, "hours"), (120, "min")):
        if seconds.mid >= length:
            size = {"days": 86_400, "hours": 3_600, "min": 60}[unit]
            return seconds.times(1 / size), unit
    return seconds, "s"


def percent(share: float) -> str:
    return f"{number(100 * share)} %"


def short(count: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{float(f'{count / size:.3g}'):,g}{unit}"
    return f"{count:g}"
