"""The lines of Megatron-LM, Megatron-DeepSpeed and GPT-NeoX: fields between bars.

    iteration 2300/ 500000 | ... | elapsed time per iteration (ms): 349.5 | ... | lm loss: 4.26 |

Sources: NVIDIA/Megatron-LM megatron/training/training.py, deepspeedai/Megatron-DeepSpeed
megatron/training.py, EleutherAI/gpt-neox megatron/logging.py.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from datetime import datetime

from clusterjobs.report.records import Event, Quantity, Window

# Begins with a literal, which is found much faster than a boundary of a word.
_ITERATION = re.compile(r"iteration +(?P<step>\d{1,15})/ *(?P<steps>\d{1,15}) *\|")
_CLOCK = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)?\]")
_FIELDS: dict[str, tuple[Quantity, float]] = {
    "elapsed time per iteration (ms)": ("seconds", 1e-3),
    "elapsed time per iteration (s)": ("seconds", 1.0),  # bigscience's fork since January 2022
    "samples per second": ("samples_per_second", 1.0),
    "samples/sec": ("samples_per_second", 1.0),  # GPT-NeoX
    "lm loss": ("loss", 1.0),
    "lm_loss": ("loss", 1.0),  # GPT-NeoX
    "learning rate": ("learning_rate", 1.0),
    "grad norm": ("grad_norm", 1.0),
    "loss scale": ("loss_scale", 1.0),
    "global batch size": ("batch", 1.0),
    "actual seqlen": ("sequence", 1.0),
    "number of skipped iterations": ("skipped", 1.0),
    "throughput per GPU (TFLOP/s/GPU)": ("printed_tflops_per_gpu", 1.0),
    "TFLOPs": ("printed_tflops_per_gpu", 1.0),
    "approx flops per GPU": ("printed_tflops_per_gpu", 1.0),  # GPT-NeoX: 70.3TFLOPS
    "MFU": ("printed_mfu", 0.01),
    "HFU": ("printed_hfu", 0.01),
}
_MARKS = {  # what only one of the three prints
    "samples/sec:": "gpt-neox",
    "samples per second:": "megatron-deepspeed",
    "consumed tokens:": "megatron-deepspeed",
    "throughput per GPU (TFLOP/s/GPU):": "megatron-lm",
    "] iteration": "megatron-lm",  # behind its time stamp
}
_VALUE = re.compile(r"([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf)) *([KMGTP]?)", re.IGNORECASE)
_IN_TERA = {"K": 1e-9, "M": 1e-6, "G": 1e-3, "P": 1e3}  # 980.5GFLOPS
_TIMERS: dict[str, Quantity] = {
    "forward-compute": "forward_seconds",
    "backward-compute": "backward_seconds",
    "batch-generator": "data_seconds",
    "forward": "forward_seconds",  # GPT-NeoX
    "backward": "backward_seconds",
    "batch generator": "data_seconds",
}
_TIMER = re.compile(
    r"\b([a-z-]{1,60}(?: generator)?)(?: \.{1,90})?: (\d[\d.]*|\(\d[\d.]*, \d[\d.]*\))"
)
_MEMORY = re.compile(r"max allocated: (\d[\d.]*)")
_VALIDATION = re.compile(
    r"\bvalidation (?:loss|results) at iteration (\d{1,15})\b.{0,200}?\bvalue: ([-+\d.eEnaif]+)"
)
_SAVING = re.compile(r"\bsaving checkpoint at iteration +(\d{1,15})")
_SAVED = re.compile(r"\bsuccessfully saved checkpoint (?:at|from) iteration +(\d{1,15})")
_LOADED = re.compile(r"\bsuccessfully loaded checkpoint .{0,500}? at iteration +(\d{1,15})")

_LAYOUTS = 20  # that are learned in a log, so that damaged lines do not cost memory


class Megatron:
    """One log; `name` is certain after a line that only one of the three prints."""

    name = "megatron"
    hints = ("iteration ", "-compute", "-generator", " | forward: ", "max allocated: ")

    def __init__(self) -> None:
        self._last = 0
        self._layout = _Layout()

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        start = line.find("iteration ")
        if start >= 0 and (found := self._layout.read(line, start)):
            return (self._window(found[1], found[0], rank),)
        if iterations := list(_ITERATION.finditer(line)):
            # Ranks that write at the same time can put two lines into one.
            starts = [0, *(one.start() for one in iterations[1:]), len(line)]
            parts = [line[begin:end] for begin, end in itertools.pairwise(starts)]
            self._layout.learn(line, start)
            return [
                self._of_line(part, int(one["step"]), rank)
                for one, part in zip(iterations, parts, strict=True)
            ]
        return self._between(line, rank)

    def _of_line(self, line: str, step: int, rank: int | None) -> Window:
        if self.name == Megatron.name:
            self.name = next((name for mark, name in _MARKS.items() if mark in line), self.name)
        return self._window(_fields(line), step, rank)

    def _window(self, values: dict[Quantity, float], step: int, rank: int | None) -> Window:
        if "seconds" not in values and "samples_per_second" not in values:
            raise ValueError("a line without a time")  # cut, or mixed with another
        self._last = step
        return Window(step, values, None, rank)

    def _between(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        """A line behind that of its steps, or of something else."""
        if values := _timers(line):
            return (Window(self._last, values, None, rank),) if self._last else ()
        if found := _MEMORY.search(line):  # in MiB, as torch.cuda.max_memory_allocated says it
            memory: dict[Quantity, float] = {"memory_gib": float(found[1]) / 1024}
            return (Window(self._last, memory, None, rank),) if self._last else ()
        event = _event(line)
        return (event,) if event else ()


class _Layout:
    """The fields of a line, as one pattern for the lines of the same fields.

    It finds the same values as `_fields`, several times faster. Lines with other fields, and
    damaged ones, do not match.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], re.Pattern[str] | None] = {}
        self._pattern: re.Pattern[str] | None = None
        self._fields: list[tuple[Quantity, float]] = []

    def learn(self, line: str, start: int) -> None:
        """`start`: of the field with the iteration, which must be the first."""
        names = tuple(part.rpartition(":")[0] for part in line[start:].split("|")[1:-1])
        if "|" in line[:start] or (names not in self._known and len(self._known) >= _LAYOUTS):
            return
        found = [_FIELDS.get(name.strip()) for name in names]
        self._fields = [one for one in found if one]
        if names not in self._known:
            is_clear = len({name for name, _ in self._fields}) == len(self._fields)
            texts = (
                rf"{re.escape(name)}: *([-+\d.eE]+|nan|inf) *\|" if known else r"[^|]*\|"
                for name, known in zip(names, found, strict=True)
            )
            pattern = re.compile(_ITERATION.pattern + "".join(texts) + r" *\Z")
            self._known[names] = pattern if is_clear else None
        self._pattern = self._known[names]

    def read(self, line: str, start: int) -> tuple[int, dict[Quantity, float]] | None:
        """The step and the values of a line; None if it has another layout."""
        found = self._pattern.match(line, start) if self._pattern else None
        if not found:
            return None
        step, _, *texts = found.groups()
        try:
            values = {
                name: float(text) * unit
                for (name, unit), text in zip(self._fields, texts, strict=True)
            }
        except ValueError:
            return None
        return int(step), values | _clock(line[:start])


def _fields(line: str) -> dict[Quantity, float]:
    """The known fields of a line, and its time stamp."""
    values: dict[Quantity, float] = {}
    for part in line.split("|"):
        name, _, text = part.rpartition(":")  # a name may have a colon, a number has none
        known = _FIELDS.get(name.strip())
        if known and (value := _number(text)) is not None:
            values.setdefault(known[0], value * known[1])
    return values | _clock(line)


def _clock(text: str) -> dict[Quantity, float]:
    """The time stamp; its time zone is unknown, which does not matter for differences."""
    if "[" not in text or not (found := _CLOCK.search(text)):
        return {}
    try:
        seconds = datetime.fromisoformat(f"{found[1]}+00:00").timestamp()
    except ValueError:
        return {}  # no such day
    return {"time": seconds + float(found[2] or 0)}


def _number(text: str) -> float | None:
    """Also of `70.3TFLOPS`, `980.5GFLOPS` and `44.10%`."""
    try:
        return float(text)
    except ValueError:
        found = _VALUE.match(text.strip())
        return float(found[1]) * _IN_TERA.get(found[2], 1.0) if found else None


def _timers(line: str) -> dict[Quantity, float]:
    """Milliseconds of one step; of (min, max) over the ranks the maximum."""
    values: dict[Quantity, float] = {}
    for name, text in _TIMER.findall(line):
        if name in _TIMERS:
            values[_TIMERS[name]] = float(text.strip("()").rpartition(", ")[2]) / 1e3
    return values


def _event(line: str) -> Event | None:
    if found := _VALIDATION.search(line):
        return Event("validation", int(found[1]), float(found[2]))
    if found := _SAVING.search(line):
        return Event("saving", int(found[1]))
    if found := _SAVED.search(line):
        return Event("saved", int(found[1]))
    if found := _LOADED.search(line):
        return Event("resumed", int(found[1]))
    return None


def format_of_log() -> Megatron:
    """A new object for one log."""
    return Megatron()
