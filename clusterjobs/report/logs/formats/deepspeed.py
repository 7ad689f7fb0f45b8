"""DeepSpeed's own lines: its throughput timer, its step line, and its pipeline engine.

Sources: deepspeed/utils/timer.py, runtime/engine.py, runtime/pipe/engine.py. Samples are those of
all ranks; GB are GiB. The timer counts the steps of its process, also after a restart, and leaves
out the first two of them; its current rate is of one step, and its mean of all steps so far.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from clusterjobs.report.logs.records import Event, EventKind, Quantity, Window

_TIMER = re.compile(
    r"global_step=(?P<step>\d{1,15}), RunningAvgSamplesPerSec=(?P<mean>[-+\d.einfa]+), "
    r"CurrSamplesPerSec=(?P<rate>[\d.]+)(?:.{0,80}?MaxMemAllocated=(?P<memory>[\d.]+)GB)?"
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
_NOT_TIMED = 2  # steps at the start of a process


class _Timer:
    step = 0  # of the engine, whose line stands before the timer's
    _before = 0, 0.0  # steps that were timed so far, and time of all of them / batch
    _ahead = 0  # steps that the process did not do

    def read(self, count: int, mean: float, rate: float) -> tuple[int, float]:
        """The engine's step, and samples/s since the line before."""
        if self.step:
            self._ahead, self.step = self.step - count, 0
        timed = count - _NOT_TIMED
        before, time_before = self._before if self._before[0] < timed else (0, 0.0)
        if timed > 0 and 0 < mean < math.inf:
            time = timed / mean
            self._before = timed, time
            if time > time_before:
                rate = (timed - before) / (time - time_before)
        return count + self._ahead, rate


class DeepSpeed:
    """One log. `skipped` in a line is the number since the start."""

    name = "deepspeed"
    hints = ("SamplesPerSec=", "skipped=", "iter time (s)", "fwd_microstep")

    def __init__(self) -> None:
        self._skipped = 0
        self._last = 0
        self._timer = _Timer()

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        for found in _TIMER.finditer(line):
            count, mean, rate = int(found["step"]), float(found["mean"]), float(found["rate"])
            step, rate = self._timer.read(count, mean, rate)
            values: dict[Quantity, float] = {"samples_per_second": rate}
            if found["memory"]:
                values["memory_gib"] = float(found["memory"])
            yield self._window(step, values, rank)
        for found in _STEP.finditer(line):
            skipped = int(found["skipped"])
            values = {"skipped": max(0, skipped - self._skipped)}
            self._skipped = skipped
            if found["rate"].strip():
                values["learning_rate"] = float(found["rate"])
            self._timer.step = int(found["step"])
            yield self._window(self._timer.step, values, rank)
        for found in _PIPELINE.finditer(line):
            values = {name: float(found[name]) for name in _IN_PIPELINE}
            yield self._window(int(found["step"]), values, rank)
        parts = {_PART_NAMES[name]: float(ms) / 1e3 for name, ms in _PARTS.findall(line)}
        if parts and self._last:
            yield Window(self._last, parts, None, rank)

    def _window(self, step: int, values: dict[Quantity, float], rank: int | None) -> Window:
        self._last = step
        return Window(self._last, values, None, rank)


format_of_log = DeepSpeed


# [Torch] End Load checkpoint from /checkpoints/global_step100/mp_rank_00_model_states.pt...
# Sources: deepspeed/runtime/engine.py, runtime/checkpoint_engine/torch_checkpoint_engine.py. Each
# rank may print them, some for each of its files.
_KINDS: dict[str, EventKind] = {
    "Saving model checkpoint: ": "saving",
    "End Load checkpoint from ": "resumed",
    "Loaded checkpoint from ": "resumed",
    "successfully loaded ": "resumed",
}
_SAVED_STEP = re.compile(r"/global_step(\d{1,15})/")


class Checkpoints:
    """DeepSpeed's lines about its checkpoints, whichever framework calls it.

    The tag of a checkpoint has its step, unless the program chooses another one.
    """

    name = "checkpoints"
    hints: tuple[str, ...] = ("/global_step",)

    _last: Event | None = None

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:  # noqa: ARG002
        kind = next((kind for text, kind in _KINDS.items() if text in line), None)
        if kind and (found := _SAVED_STEP.search(line)):
            event = Event(kind, int(found[1]))
            if event != self._last:
                self._last = event
                yield event
