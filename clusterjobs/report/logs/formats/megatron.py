"""The lines of Megatron-LM, Megatron-DeepSpeed and GPT-NeoX: fields between bars.

    iteration 2300/ 500000 | ... | elapsed time per iteration (ms): 349.5 | ... | lm loss: 4.26 |

Sources: NVIDIA/Megatron-LM megatron/training/training.py, deepspeedai/Megatron-DeepSpeed
megatron/training.py, EleutherAI/gpt-neox megatron/logging.py.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from clusterjobs.report.logs.records import Event, EventKind, Quantity, Window

_LABEL = rb" *(?:(?P<rank>\d{1,7}): )?"  # srun --label
_CLOCK = rb" *(?:\[(?P<second>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<fraction>\.\d{1,9})?\])?"
_STEP = rb" *iteration +(?P<step>\d{1,15})/ *"
_START = re.compile(_CLOCK.decode() + _STEP.decode() + r"(?P<steps>\d{1,15} *\|)")
_NUMBER = rb": *([-+\d.eE]+|nan|inf) *\|"
_ANY_FIELD = rb"[^|\r\x1b\[/]*\|"  # with no time stamp, nor a second `iteration 1/ 2`
_MOST = 20  # layouts that are learned in a log, so that damaged lines do not cost memory
_OTHERS = 4  # groups before the fields


class Layout:
    """Reads the usual lines fast: one pattern for all fields of the last line that was learned.

    It reads bytes as they are in the file, and finds what `Megatron.read` finds in the same line.
    Other lines do not match.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], re.Pattern[bytes] | None] = {}
        self._pattern: re.Pattern[bytes] | None = None
        self._names: list[Quantity] = []
        self._scaled: list[tuple[Quantity, float]] = []  # those of another unit than the log's

    def learn(self, line: str, fields: Mapping[str, tuple[Quantity, float]]) -> None:
        """`line`: without a label. `fields`: quantity and unit of each field that is known."""
        start = _START.match(line)
        names = tuple(part.rpartition(":")[0] for part in line.split("|")[1:-1])
        if not start:
            return
        layout = start["steps"], *names
        if layout not in self._known and len(self._known) >= _MOST:
            return
        found = [fields.get(name.strip()) for name in names]
        known = [one for one in found if one]
        self._names = [name for name, _ in known]
        self._scaled = [(name, unit) for name, unit in known if unit != 1]
        if layout not in self._known:
            is_clear = len(set(self._names)) == len(self._names)
            self._known[layout] = _pattern(start["steps"], names, found) if is_clear else None
        self._pattern = self._known[layout]

    def read(self, raw: bytes) -> Window | None:
        """The window of a line; None if it has another layout."""
        found = self._pattern.fullmatch(raw) if self._pattern else None
        if not found:
            return None
        groups = found.groups()
        rank, second, fraction, step = groups[:_OTHERS]
        try:
            numbers = map(float, groups[_OTHERS:])
            values = dict(zip(self._names, numbers, strict=True))
            if second:
                time = datetime.fromisoformat(second.decode() + "+00:00").timestamp()
                values["time"] = time + float(fraction or 0)
        except ValueError:
            return None
        for name, unit in self._scaled:
            values[name] *= unit
        return Window(int(step), values, None, int(rank) if rank else None)


def _pattern(
    steps: str, names: Sequence[str], found: Sequence[tuple[Quantity, float] | None]
) -> re.Pattern[bytes]:
    """Of lines with the same length of the training and the same fields."""
    fields = (
        re.escape(name).encode() + _NUMBER if known else _ANY_FIELD
        for name, known in zip(names, found, strict=True)
    )
    start = _LABEL + _CLOCK + _STEP + re.escape(steps).encode()
    return re.compile(start + b"".join(fields) + b" *")


# Begins with a literal, which is found much faster than a boundary of a word.
_ITERATION = re.compile(r"iteration +(?P<step>\d{1,15})/ *(?P<steps>\d{1,15}) *\|")
_PRINTED_CLOCK = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)?\]")
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
_EVENTS: tuple[tuple[EventKind, re.Pattern[str]], ...] = (  # the step, and the loss
    (
        "validation",
        re.compile(
            r"\bvalidation (?:loss|results) at iteration (\d{1,15})\b"
            r".{0,200}?\bvalue: ([-+\d.eEnaif]+)"
        ),
    ),
    ("saving", re.compile(r"\bsaving checkpoint at iteration +(\d{1,15})")),
    ("saved", re.compile(r"\bsuccessfully saved checkpoint (?:at|from) iteration +(\d{1,15})")),
    (
        "resumed",
        re.compile(r"\bsuccessfully loaded checkpoint .{0,500}? at iteration +(\d{1,15})"),
    ),
)


class Megatron:
    """One log; `name` is certain after a line that only one of the three prints."""

    name = "megatron"
    hints = ("iteration ", "-compute", "-generator", " | forward: ", "max allocated: ")

    _last = 0
    _length = 0

    def __init__(self) -> None:
        self._layout = Layout()

    def read_raw(self, raw: bytes) -> Window | None:
        """A line of the same fields as one before."""
        window = self._layout.read(raw)
        if not window or not _is_timed(window.values) or window.step > self._length:
            return None
        self._last = window.step
        return window

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        if iterations := list(_ITERATION.finditer(line)):
            # Ranks that write at the same time can put two lines into one.
            starts = [0, *(one.start() for one in iterations[1:]), len(line)]
            parts = [line[begin:end] for begin, end in itertools.pairwise(starts)]
            windows = [
                self._of_line(part, int(one["step"]), int(one["steps"]), rank)
                for one, part in zip(iterations, parts, strict=True)
            ]
            if len(windows) == 1:
                self._layout.learn(line, _FIELDS)
            before, self._length = self._length, int(iterations[0]["steps"])
            is_new = self._length != before
            return (*windows, *([Event("length", value=self._length)] if is_new else []))
        if values := _timers(line):  # a line behind that of its steps
            return (Window(self._last, values, None, rank),) if self._last else ()
        if found := _MEMORY.search(line):  # in MiB, as torch.cuda.max_memory_allocated says it
            memory: dict[Quantity, float] = {"memory_gib": float(found[1]) / 1024}
            return (Window(self._last, memory, None, rank),) if self._last else ()
        for kind, pattern in _EVENTS:
            if found := pattern.search(line):
                value = float(found[2]) if pattern.groups > 1 else None
                return (Event(kind, int(found[1]), value),)
        return ()

    def _of_line(self, line: str, step: int, steps: int, rank: int | None) -> Window:
        if step > steps:
            raise ValueError("a step behind the last one")
        if self.name == Megatron.name:
            self.name = next((name for mark, name in _MARKS.items() if mark in line), self.name)
        values = _fields(line)
        if not _is_timed(values):
            raise ValueError("a line without a time")  # cut, or mixed with another
        self._last = step
        return Window(step, values, None, rank)


def _is_timed(values: Mapping[Quantity, float]) -> bool:
    return "seconds" in values or "samples_per_second" in values


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
    if "[" not in text or not (found := _PRINTED_CLOCK.search(text)):
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


format_of_log = Megatron
