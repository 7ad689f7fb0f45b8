"""DeepSpeed's own lines: its throughput timer, its step line, and its pipeline engine.

Sources: deepspeed/utils/timer.py, runtime/engine.py, runtime/pipe/engine.py. Samples are those of
all ranks; the timer leaves out the first two steps; GB are GiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.records import Event, Quantity, Window

_TIMER = re.compile(
    r"global_step=(?P<step>\d{1,15}), RunningAvgSamplesPerSec=[\d.a-z]+, "
    r"CurrSamplesPerSec=(?P<rate>[\d.]+)(?:.*?MaxMemAllocated=(?P<memory>[\d.]+)GB)?"
)
_STEP = re.compile(
    r"\bstep=(?P<step>[1-9]\d{0,14}), skipped=(?P<skipped>\d+), lr=\[(?P<rate>[^],]*)"
)
_PIPELINE = re.compile(
    r"\bsteps: (?P<step>\d{1,15}) loss: (?P<loss>\S+) iter time \(s\): (?P<seconds>[\d.]+) "
    r"samples/sec: (?P<samples_per_second>[\d.]+)"
)
_IN_PIPELINE: tuple[Quantity, ...] = ("loss", "seconds", "samples_per_second")
_PARTS = re.compile(r"\b(fwd|bwd)_microstep: (\d[\d.]*)")
_PART_NAMES: dict[str, Quantity] = {"fwd": "forward_seconds", "bwd": "backward_seconds"}


class DeepSpeed:
    """One log. `skipped` in a line is the number since the start."""

    name = "deepspeed"
    hints = ("SamplesPerSec=", "skipped=", "iter time (s)", "fwd_microstep")

    def __init__(self) -> None:
        self._skipped = 0
        self._last = 0

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        for found in _TIMER.finditer(line):
            values: dict[Quantity, float] = {"samples_per_second": float(found["rate"])}
            if found["memory"]:
                values["memory_gib"] = float(found["memory"])
            yield self._window(found["step"], values, rank)
        for found in _STEP.finditer(line):
            skipped = int(found["skipped"])
            values = {"skipped": max(0, skipped - self._skipped)}
            self._skipped = skipped
            if found["rate"].strip():
                values["learning_rate"] = float(found["rate"])
            yield self._window(found["step"], values, rank)
        for found in _PIPELINE.finditer(line):
            values = {name: float(found[name]) for name in _IN_PIPELINE}
            yield self._window(found["step"], values, rank)
        parts = {_PART_NAMES[name]: float(ms) / 1e3 for name, ms in _PARTS.findall(line)}
        if parts and self._last:
            yield Window(self._last, parts, None, rank)

    def _window(self, step: str, values: dict[Quantity, float], rank: int | None) -> Window:
        self._last = int(step)
        return Window(self._last, values, None, rank)


def format_of_log() -> DeepSpeed:
    """A new object for one log."""
    return DeepSpeed()
