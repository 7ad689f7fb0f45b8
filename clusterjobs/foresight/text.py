"""Foresight as a short block of text, for `plan`, and its warnings."""

from collections.abc import Iterator

from clusterjobs.console import printable
from clusterjobs.errors import Problem, counted
from clusterjobs.foresight.foresee import Foresight, no_speed
from clusterjobs.foresight.formulas.training_time import FAILURES, START_NOTE, loss_share
from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.models.records import Range
from clusterjobs.runs.training import CPU, length_in_arguments
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.yaml.document import Path, dotted

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
    lines = ["foresight"]
    for name, value, note in rows:  # the note, below the value, says what it rests on
        lines.append(printable(f"  {name:<12}{value}"))
        lines += [printable(f"{'':14}{line}") for line in note.split("\n") if line]
    return "\n".join(lines)


def _origin(found: Foresight) -> str:
    if found.measured:
        return found.measured.shown()
    lines = []
    if found.job.assumed:
        said = "kind and trainable of model, and precision, say it"
        lines.append(f"assumed: {', '.join(found.job.assumed)}; {said}")
    if found.speed and found.speed.doubts:
        lines.append("not validated: " + "; ".join(found.speed.doubts))
    elif found.speed and not found.job.assumed:
        lines.append("inside the region of published measurements")
    return "\n".join(lines)


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
    text = (
        f"{between(speed.step_seconds, 's')}, {between(speed.tokens_per_second_per_gpu)} tokens/s "
        f"per GPU, MFU {100 * speed.mfu.low:.0f}-{100 * speed.mfu.high:.0f} %"
    )
    if speed.counts_causal_half:
        text += " (attention counted once for its causal half)"
    return text, ", ".join(map(str, speed.limits))


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
    about = "about " if found.cost.price.assumed else ""
    return f"{about}${between(usd)}, middle ${number(usd.mid)}", found.cost.price.shown()


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
    """The range in days, hours, minutes or seconds, whichever suits its middle."""
    for least, size, unit in ((172_800, 86_400, "days"), (7_200, 3_600, "hours"), (120, 60, "min")):
        if value.mid >= least:
            return between(value.times(1 / size), unit)
    return between(value, "s")


def percent(share: float) -> str:
    return f"{number(100 * share)} %"


def short(count: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{float(f'{count / size:.3g}'):,g}{unit}"
    return f"{count:g}"


SAME_LENGTH = 0.02
MOST_LOST = 0.20  # of the GPUs' time, in a bubble


def foresight_warnings(
    found: Foresight, loaded: LoadedSpec, strict: bool = False
) -> Iterator[Problem]:
    """What would waste the GPUs that are about to be rented.

    `strict`: a job that does not fit is an error, unless what is trained is assumed, or nothing
    comparable was measured. Idle GPUs are no part of it: the plan warns of them for every job.
    """

    def problem(path: Path, what: str, hint: str, warning: bool = True) -> Problem:
        return Problem(what, loaded.source.locate(path), dotted(path), hint, warning)

    memory, layout = found.memory, found.job.layout
    if memory.verdict == "does_not_fit":
        what = f"does not fit: about {between(memory.gib, 'GiB')} of a GPU's "
        what += f"{number(memory.capacity)} GiB are needed"
        remedies = (*memory.remedies, f"clusterjobs advise {loaded.source.locate(()).file}")
        batch = loaded.expanded.get("batch", {})
        where: Path = ("batch",) if batch != {} else ("model",)
        if isinstance(batch, dict) and batch.get("micro", {}) != {}:
            where = ("batch", "micro")
        is_guess = bool(found.job.assumed or layout.adapter_rank or found.job.model.vocab == 1)
        yield problem(where, what, remedies[0], not strict or is_guess)
    bubble = bubble_share(found)
    if bubble > MOST_LOST:
        p, m = layout.pipeline, round(layout.micro_batches)
        batches = "1 micro batch" if m == 1 else f"{m} micro batches"
        what = f"the pipeline is idle {bubble:.0%} of the time: {batches} in {p} stages"
        hint = f"accumulation of at least {4 * p}, or a smaller pipeline: clusterjobs advise"
        yield problem(("parallel", "pipeline"), what, hint)
    if lengths := _two_lengths(found, loaded):
        own, other, origin = lengths
        what = f"training is {steps_text(own)}, but {origin} makes it {steps_text(other)}"
        hint = f"time and cost are those of training, and the program follows {origin}: "
        yield problem(("training",), what, f"{hint}correct one of them, or remove training")
    interval, limit = found.saves.interval_seconds, found.job.time_limit
    if interval and limit and found.speed and limit < interval.mid:
        gap = between(interval.times(1 / 60), "min")
        what = f"the time limit of {limit // 60} min is shorter than the {gap} between two "
        what += f"checkpoints ({found.saves.interval_steps} steps)"
        steps = max(1, int(found.saves.best_interval.mid / found.speed.step_seconds.mid))
        best = f"save every {min(steps, int(limit / 2 / found.speed.step_seconds.mid)) or 1} steps"
        yield problem(("time_limit",), what, f"{best}, or a longer time_limit")


def _two_lengths(found: Foresight, loaded: LoadedSpec) -> tuple[int, int, str] | None:
    """Steps of `training` and of an argument that the program gets, if they differ, and its name.

    Tokens are rarely whole steps, so a small difference is none; with a batch that grows, steps and
    tokens cannot be compared. The plan compares two numbers of steps itself.
    """
    length, other = found.job.length, length_in_arguments(loaded.spec)
    if length is None or length.origin != "training" or other is None:
        return None
    if length.steps is not None and other.steps is not None:
        return None
    if any(one.key == "rampup_batch_size" for one in given_arguments(loaded.spec)):
        return None
    sizes = found.job.layout.global_batch, found.job.model.sequence
    own, given = length.steps_with(*sizes), other.steps_with(*sizes)
    is_same = abs(own - given) <= max(1, SAME_LENGTH * own)
    return None if is_same else (own, given, other.origin)


def bubble_share(found: Foresight) -> float:
    layout = found.job.layout
    if layout.pipeline == 1:
        return 0.0
    idle = (layout.pipeline - 1) / layout.virtual_pipeline
    return idle / (layout.micro_batches + idle)
