"""The lines of Megatron-LM, Megatron-DeepSpeed and GPT-NeoX: fields between bars.

    iteration 2300/ 500000 | ... | elapsed time per iteration (ms): 349.5 | ... | lm loss: 4.26 |

Sources: NVIDIA/Megatron-LM megatron/training/training.py, deepspeedai/Megatron-DeepSpeed
megatron/training.py, EleutherAI/gpt-neox megatron/logging.py.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from clusterjobs.report.logs.forms import Place, Rows
from clusterjobs.report.logs.records import Event, EventKind, Quantity, Window

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
_VALUE = re.compile(r" *([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf)) *([KMGTP]?)", re.IGNORECASE)
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

    def places(self, line: str) -> Sequence[Place]:
        if not (steps := [*_ITERATION.finditer(line)]):
            return [place for place, _ in _timers(line).values()]
        fields = [place for place, _ in _fields(line).values()]
        step, length = steps[0].start("step"), steps[0].start("steps")
        return (Place("step", step), Place("same", length), *fields) if len(steps) == 1 else ()

    def finish(self, rows: Rows) -> Rows | None:
        if not _is_timed(rows.values) or max(rows.steps) > self._length:
            return None
        self._last = rows.steps[-1]
        return rows

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        if iterations := list(_ITERATION.finditer(line)):
            # Ranks that write at the same time can put two lines into one.
            starts = [0, *(one.start() for one in iterations[1:]), len(line)]
            parts = [line[begin:end] for begin, end in itertools.pairwise(starts)]
            windows = [
                self._of_line(part, int(one["step"]), int(one["steps"]), rank)
                for one, part in zip(iterations, parts, strict=True)
            ]
            before, self._length = self._length, int(iterations[0]["steps"])
            is_new = self._length != before
            return (*windows, *([Event("length", value=self._length)] if is_new else []))
        if values := _values(_timers(line)):  # a line behind that of its steps
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
        values = _values(_fields(line))
        if not _is_timed(values):
            raise ValueError("a line without a time")  # cut, or mixed with another
        self._last = step
        return Window(step, values, None, rank)


def _is_timed(values: Collection[str]) -> bool:
    return "seconds" in values or "samples_per_second" in values


def _fields(line: str) -> dict[Quantity, tuple[Place, float]]:
    """The known fields of a line, also `70.3TFLOPS` and `44.10%`, and its time stamp."""
    found: dict[Quantity, tuple[Place, float]] = {}
    end = 0
    for part in line.split("|"):
        start, end = end, end + len(part) + 1
        name, _, text = part.rpartition(":")  # a name may have a colon, a number has none
        known, number = _FIELDS.get(name.strip()), _VALUE.match(text)
        if known and number:
            scale = known[1] * _IN_TERA.get(number[2], 1.0)
            place = Place(known[0], start + len(part) - len(text) + number.start(1), scale)
            found.setdefault(known[0], (place, float(number[1]) * scale))
    return found | _clock(line)


def _clock(text: str) -> dict[Quantity, tuple[Place, float]]:
    """The time stamp; its time zone is unknown, which does not matter for differences."""
    if "[" not in text or not (found := _PRINTED_CLOCK.search(text)):
        return {}
    try:
        seconds = datetime.fromisoformat(f"{found[1]}+00:00").timestamp()
    except ValueError:
        return {}  # no such day
    return {"time": (Place("time", found.start(1)), seconds + float(found[2] or 0))}


def _timers(line: str) -> dict[Quantity, tuple[Place, float]]:
    """Milliseconds of one step; of (min, max) over the ranks the maximum."""
    found: dict[Quantity, tuple[Place, float]] = {}
    for one in _TIMER.finditer(line):
        if name := _TIMERS.get(one[1]):
            number = one[2].rpartition(", ")[2].strip("()")
            start = one.end(2) - len(number) - one[2].endswith(")")
            found[name] = Place(name, start, 1e-3), float(number) * 1e-3
    return found


def _values(found: Mapping[Quantity, tuple[Place, float]]) -> dict[Quantity, float]:
    return {name: value for name, (_, value) in found.items()}


format_of_log = Megatron
