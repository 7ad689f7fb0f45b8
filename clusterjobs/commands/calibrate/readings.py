"""Step times and memory from a job's log, by the log lines of the framework or of common programs.

It reads lines of text; it must not know jobs or predictions.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from clusterjobs.errors import one_problem

FEWEST_STEPS = 3
WARM_UP = 0.3  # of the steps: compilation, caches, the first allocations
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_NUMBER = r"(?P<{}>\d[\d.,]*(?:e[-+]?\d+)?)"
# For programs whose framework declares no line.
_COMMON = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"samples/s(?:ec)?[ =:]+" + _NUMBER.format("samples_per_second"),
        r"tokens/s(?:ec)?[ =:]+" + _NUMBER.format("tokens_per_second"),
        r"\bstep[ _]time[ =:]+" + _NUMBER.format("seconds") + r" ?s\b",
        r"\b(?:step|iteration)[ _]time[ =:]+" + _NUMBER.format("milliseconds") + r" ?ms\b",
    )
)
# Unit -> GiB. Megatron's MB are MiB, and DeepSpeed's GB are GiB.
_MEMORY = (
    (re.compile(r"max allocated: ([\d.]+)"), 1 / 1024),  # Megatron's report_memory
    (re.compile(r"MaxMemAllocated=([\d.]+)GB"), 1.0),  # DeepSpeed's timer
    (re.compile(r"Max_MA ([\d.]+) GB"), 1.0),  # DeepSpeed's see_memory_usage
    (re.compile(r"memory: +([\d.]+)GiB"), 1.0),  # torchtitan
    (re.compile(r"(?i)\bpeak[ _]memory[ =:]+([\d.]+) ?GiB"), 1.0),
)


class Readings(NamedTuple):
    """The median of a step, the number of steps that it is of, and the largest memory in GiB."""

    step_seconds: float
    steps: int
    peak_gib: float | None


def read_log(
    lines: Iterable[str], patterns: Sequence[str], batch: int, sequence: int, gpus: int
) -> Readings:
    """The readings of a log. Raises InputError if it has too few steps with a speed.

    `batch` samples of `sequence` tokens are a step of the job.
    """
    forms = [*map(re.compile, patterns), *_COMMON]
    seconds: list[float] = []
    peak = 0.0
    rank = None  # whose steps are read: each rank may print them
    for raw in lines:
        line = _COLOURS.sub("", raw)
        found = [one for one in _step_seconds(line, forms, batch, sequence, gpus) if one > 0]
        if found and rank in (None, _rank(line)):
            rank = _rank(line)
            seconds += found
        peak = max([peak, *_gibs(line)])
    kept = seconds[math.floor(len(seconds) * WARM_UP) :]
    if len(kept) < FEWEST_STEPS:
        raise one_problem(
            f"the log has {len(seconds)} steps with a speed; at least {_least()} are needed",
            hint="log each step, with samples/s: or step time: ... ms in the line",
        )
    return Readings(statistics.median(kept), len(kept), peak or None)


def _rank(line: str) -> str:
    """The label of the rank that printed the line: `3: step 10`."""
    label, colon, _ = line.partition(": ")
    return label.strip() if colon and label.strip().isdecimal() else ""


def _least() -> int:
    return math.ceil(FEWEST_STEPS / (1 - WARM_UP))


def _step_seconds(
    line: str, forms: Iterable[re.Pattern[str]], batch: int, sequence: int, gpus: int
) -> Iterator[float]:
    """The time of the step that a line reports; nothing if it reports none."""
    for form in forms:
        found = form.search(line)
        if not found:
            continue
        values = {name: _number(text) for name, text in found.groupdict().items() if text}
        for name, work in (
            ("samples_per_second", batch),
            ("tokens_per_second", batch * sequence),
            ("tokens_per_second_per_gpu", batch * sequence / gpus),
        ):
            if values.get(name):
                yield work / values[name]
                return
        for name, unit in (("milliseconds", 1e-3), ("seconds", 1.0)):
            if values.get(name):
                yield values[name] * unit
                return


def _number(text: str) -> float:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def _gibs(line: str) -> Iterator[float]:
    for form, unit in _MEMORY:
        for text in form.findall(line):
            yield _number(text) * unit
