"""Foresight as a short block of text, for `plan`."""

from __future__ import annotations

from clusterjobs.commands.foresight.data import NO_SPEED
from clusterjobs.commands.foresight.foresee import Foresight
from clusterjobs.commands.foresight.job import CPU
from clusterjobs.counted import counted
from clusterjobs.foresight.records import Range
from clusterjobs.foresight.saves import loss_share
from clusterjobs.foresight.training_time import FAILURES, START_NOTE

VERDICTS = {"fits": "fits", "borderline": "borderline", "does_not_fit": "does not fit"}


def foresight_text(found: Foresight) -> str:
    """A row per question: does it fit, how fast, how long, how much."""
    rows = [
        ("model", f"{short(found.parameters)} parameters", _origin(found)),
        ("memory", *_memory(found)),
        ("step", *_step(found)),
        ("time", *_time(found)),
        ("checkpoint", *_checkpoint(found)),
        ("cost", *_cost(found)),
    ]
    nearest = found.speed.nearest if found.speed else ()
    rows += [("nearest" if n == 0 else "", str(one), "") for n, one in enumerate(nearest)]
    lines = [line for name, value, note in rows for line in _lines(name, value, note)]
    return "foresight\n" + "\n".join(lines)


def _lines(name: str, value: str, note: str) -> list[str]:
    """A value, and below it what it rests on."""
    first = f"  {name:<12}{value}"
    return [first, f"{'':14}{note}"] if note else [first]


def _origin(found: Foresight) -> str:
    if found.measured:
        return found.measured.shown()
    if found.speed is None or found.speed.validated:
        return "inside the region of published measurements" if found.speed else ""
    return "not validated: " + "; ".join(found.speed.doubts)


def _memory(found: Foresight) -> tuple[str, str]:
    memory = found.memory
    used = f"{between(memory.gib, 'GiB')} of {memory.capacity:.3g} GiB"
    largest = sorted(memory.parts.items(), key=lambda part: -part[1])[:3]
    parts = ", ".join(f"{name} {gib:.3g}" for name, gib in largest)
    return f"{VERDICTS[memory.verdict]}: {used}", parts


def _step(found: Foresight) -> tuple[str, str]:
    speed = found.speed
    if speed is None:
        return "unknown", NO_SPEED
    if found.job.gpu.name.startswith(CPU):
        return between(speed.step_seconds, "s"), ""
    tokens = f"{between(speed.tokens_per_second_per_gpu)} tokens/s per GPU"
    mfu = f"MFU {100 * speed.mfu.low:.0f}-{100 * speed.mfu.high:.0f} %"
    return f"{between(speed.step_seconds, 's')}, {tokens}, {mfu}", ", ".join(map(str, speed.limits))


def _time(found: Foresight) -> tuple[str, str]:
    time = found.time
    if time is None and found.job.length:
        return "unknown", ""
    if time is None:
        return "unknown", "add training: {tokens: 300e9}, or samples, or steps"
    text = f"{hours(time.seconds)} for {counted(time.steps, 'step')}"
    if time.attempts and time.attempts.high > 1:
        low, high = (int(one) - 1 for one in (time.attempts.low, time.attempts.high))
        requeues = f"{low} to {high} requeues" if low < high else counted(high, "requeue")
        text += f", {requeues} at the time limit"
    return text, f"failures lose {hours(time.lost)} of it; {START_NOTE}"


def _checkpoint(found: Foresight) -> tuple[str, str]:
    saves = found.saves
    text = f"{number(saves.gib)} GiB, saved in {between(saves.save_seconds, 's')}"
    step = found.speed.step_seconds.mid if found.speed else None
    steps = counted(max(1, round(saves.best_interval.mid / step)), "step") if step else ""
    best = f"best interval {hours(saves.best_interval)}, {steps} (Young/Daly)"
    if saves.interval_seconds:
        now, least = (
            loss_share(saves.save_seconds.mid, one.mid, found.between_failures.mid)
            for one in (saves.interval_seconds, saves.best_interval)
        )
        best = f"every {saves.interval_steps} steps: saves and failures take {percent(now)} of the "
        best += f"time; {percent(least)} at the best interval, {steps} (Young/Daly)"
    rate = f"{saves.rate_note}; {FAILURES.source}"
    return text, f"{best}\n{'':14}{rate}"


def _cost(found: Foresight) -> tuple[str, str]:
    if found.cost is None:
        return "unknown", found.no_cost
    usd = found.cost.usd
    return f"up to ${_dollars(usd.high)} (middle ${_dollars(usd.mid)})", found.cost.price.shown()


def _dollars(usd: float) -> str:
    return f"{usd:,.2f}" if usd < 100 else f"{float(f'{usd:.3g}'):,.0f}"


def between(value: Range, unit: str = "") -> str:
    low, high = (number(one) for one in (value.low, value.high))
    text = low if low == high else f"{low}-{high}"
    return f"{text} {unit}".rstrip()


def number(value: float) -> str:
    """Three digits, no exponent."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


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
    return f"{100 * share:.2g} %"


def short(count: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:g}"
