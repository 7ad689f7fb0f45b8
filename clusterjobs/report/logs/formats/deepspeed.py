"""DeepSpeed's own lines: its throughput timer, its step line, and its pipeline engine.

Sources: deepspeed/utils/timer.py, runtime/engine.py, runtime/pipe/engine.py. Samples are those of
all ranks; GB are GiB. The timer counts the steps of its process, also after a restart, and leaves
out the first two of them; its current rate is of one step, and its mean of all steps so far.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterjobs.report.logs.forms import Place, Rows
from clusterjobs.report.logs.records import Event, EventKind, Quantity, Window

_TIMER = re.compile(
    r"global_step=(?P<step>\d{1,15}), RunningAvgSamplesPerSec=(?P<mean>[-+\d.einfa]+), "
    r"CurrSamplesPerSec=(?P<rate>[\d.]+)(?!,\d)(?:.{0,80}?MaxMemAllocated=(?P<memory>[\d.]+)GB)?"
)
_STEP = re.compile(
    r"\bstep=(?P<step>[1-9]\d{0,14}), skipped=(?P<skipped>\d+), lr=\[(?P<rate>[^],]*)"
)
_PIPELINE = re.compile(
    r"\bsteps: (?P<step>\d{1,15}) loss: (?P<loss>\S+) iter time \(s\): (?P<seconds>[\d.]+) "
    r"samples/sec: (?P<samples_per_second>[\d.]+)"
)
_IN_PIPELINE: tuple[Quantity, ...] = ("loss", "seconds", "samples_per_second")
# DeepSpeed-Chat trains an actor and a critic, each with an engine, and times both together:
#     |E2E latency=3.66s |Gather latency=... |CurSamplesPerSec=17.48 |AvgSamplesPerSec=16.9
#     epoch: 0|step: 6|ppo_ep: 1|act_loss: -0.048|cri_loss: 0.026|unsuper_loss: 0.0
_BOTH = re.compile(r"\|E2E latency=([\d.]{1,20})s .{0,300}\|CurSamplesPerSec=([\d.]{1,20})")
_STEP_OF_BOTH = re.compile(r"\bstep: (\d{1,15})\|ppo_ep: \d+\|act_loss: ([-+\d.einfa]{1,30})")
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


class _Engines:
    """Lines of one kind, of one rank: several engines print each step one after the other."""

    def __init__(self) -> None:
        self._step = -1
        self._place = 0

    def are_several(self, steps: Sequence[int]) -> bool:
        """Whether one of these lines is of a further engine."""
        return any(map(operator.eq, [self._step, *steps], steps))

    def place(self, step: int) -> int:
        """Which of the engines prints this line: 0 for the first."""
        self._place = self._place + 1 if step == self._step else 0
        self._step = step
        return self._place


class DeepSpeed:
    """One log. `skipped` in a line is the number since the start.

    Of several engines in one program, the first one counts, and no speed: a step takes the time of
    all of them.
    """

    name = "deepspeed"
    hints = ("SamplesPerSec=", "skipped=", "iter time (s)", "fwd_microstep", "|ppo_ep: ")

    def __init__(self) -> None:
        self._skipped = 0
        self._last = 0
        self._timer = _Timer()
        self._engines: defaultdict[tuple[str, int | None], _Engines] = defaultdict(_Engines)
        self._most = 1  # engines
        self._both: dict[Quantity, float] = {}  # of the step whose line follows

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        if "|" in line:
            yield from self._of_all_engines(line, rank)
        for found in _TIMER.finditer(line) if "SamplesPerSec=" in line else ():
            if self._engines["timer", rank].place(int(found["step"])):
                continue
            count, mean, rate = int(found["step"]), float(found["mean"]), float(found["rate"])
            step, rate = self._timer.read(count, mean, rate)
            values: dict[Quantity, float] = {}
            if self._most == 1:
                values["samples_per_second"] = rate
            if found["memory"]:
                values["memory_gib"] = float(found["memory"])
            yield self._window(step, values, rank)
        for found in _STEP.finditer(line) if "skipped=" in line else ():
            if place := self._engines["step", rank].place(int(found["step"])):
                if place >= self._most:
                    self._most = place + 1
                    yield Event("engines", value=self._most)
                continue
            skipped = int(found["skipped"])
            values = {"skipped": max(0, skipped - self._skipped)}
            self._skipped = skipped
            if found["rate"].strip():
                values["learning_rate"] = float(found["rate"])
            self._timer.step = int(found["step"])
            yield self._window(self._timer.step, values, rank)
        for found in _PIPELINE.finditer(line) if "iter time" in line else ():
            values = {name: float(found[name]) for name in _IN_PIPELINE}
            yield self._window(int(found["step"]), values, rank)
        if "_microstep" not in line:
            return
        parts = {_PART_NAMES[name]: float(ms) / 1e3 for name, ms in _PARTS.findall(line)}
        if parts and self._last:
            yield Window(self._last, parts, None, rank)

    def places(self, line: str) -> Sequence[Place]:
        found = [
            (pattern, one)
            for pattern in (_TIMER, _STEP, _PIPELINE)
            for one in pattern.finditer(line)
        ]
        if len(found) != 1 or "|" in line:
            return ()
        pattern, one = found[0]
        names = {name: name for name in pattern.groupindex if one[name]}
        if pattern is _TIMER:
            is_behind = any(kind == "step" for kind, _ in self._engines)
            names |= {"step": "count" if is_behind else "step", "rate": "samples_per_second"}
            names |= {"memory": "memory_gib"} if one["memory"] else {}
        elif pattern is _STEP:
            names["rate"] = "learning_rate"
        return [Place(known, one.start(name)) for name, known in names.items()]

    def finish(self, rows: Rows) -> Rows | None:
        """Of one engine, as one rank prints it."""
        steps, values = rows.steps, rows.values
        counts = [*map(int, values.pop("count", steps))]
        has_steps, is_timed = "skipped" in values, "mean" in values
        kinds = {"step": steps} if has_steps else {}
        kinds |= {"timer": counts} if is_timed else {}
        rank = rows.ranks[0] if rows.ranks else None
        engines = [(self._engines[kind, rank], found) for kind, found in kinds.items()]
        is_one = self._most == 1 and rows.are_of_one_rank()
        if not is_one or any(engine.are_several(found) for engine, found in engines):
            return None
        for engine, found in engines:
            engine.place(found[-1])
        if has_steps:
            skipped = [self._skipped, *map(int, values["skipped"])]
            values["skipped"] = [max(0, new - old) for old, new in itertools.pairwise(skipped)]
            self._skipped, self._timer.step = skipped[-1], steps[-1]
        if is_timed:
            read = []
            lines = zip(
                steps, counts, values.pop("mean"), values["samples_per_second"], strict=True
            )
            for step, count, mean, rate in lines:
                self._timer.step = step if has_steps else self._timer.step
                read.append(self._timer.read(count, mean, rate))
            steps, values["samples_per_second"] = (
                [step for step, _ in read],
                [rate for _, rate in read],
            )
        self._last = steps[-1]
        return rows._replace(steps=steps)

    def _of_all_engines(self, line: str, rank: int | None) -> Iterable[Window]:
        """What DeepSpeed-Chat says of a step of both engines, which counts from 0."""
        if found := _BOTH.search(line):
            self._most = max(2, self._most)
            self._both = {"seconds": float(found[1]), "samples_per_second": float(found[2])}
        if found := _STEP_OF_BOTH.search(line):
            values, self._both = {**self._both, "loss": float(found[2])}, {}
            yield self._window(int(found[1]) + 1, values, rank)

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
