"""What a log says, in common names: windows of steps, and events between them.

A format turns lines into these records; the rest of the report reads only them.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Literal, NamedTuple

# The values of a window. Rates are of the whole job, as in foresight; times are in seconds.
Quantity = Literal[
    "seconds",  # of one step, mean over the window
    "line_seconds",  # of one step, or of all since the line before, or since the start
    "elapsed",  # since the start of the training
    "samples_per_second",
    "tokens_per_second",
    "tokens_per_second_per_gpu",
    "samples_per_second_per_gpu",
    "loss",  # in nats
    "validation_loss",
    "learning_rate",
    "grad_norm",
    "loss_scale",
    "skipped",  # steps of the window that were skipped
    "batch",  # samples of a step
    "sequence",  # tokens of a sample
    "memory_gib",  # the largest so far, of the rank that prints it
    "gpu_percent",  # how long a GPU was busy, as nvidia-smi counts it
    "printed_tflops_per_gpu",  # as the framework calculates it
    "printed_mfu",  # 0 to 1
    "printed_hfu",
    "forward_seconds",  # parts of one step
    "backward_seconds",
    "data_seconds",
    "time",  # wall clock, in seconds since 1970
]


class Window(NamedTuple):
    """What a line says about the steps since the window before, `step` included.

    `steps`: how many these are, None if the line does not say it. `rank`: who printed the line,
    None without a label. `low` and `high`: extremes of values, where several windows were merged;
    `lines`: how many.
    """

    step: int
    values: Mapping[Quantity, float]
    steps: int | None = None
    rank: int | None = None
    low: Mapping[Quantity, float] = {}
    high: Mapping[Quantity, float] = {}
    lines: int = 1

    def with_values(self, values: Mapping[Quantity, float]) -> Window:
        """The window with other values; `_replace` takes three times as long."""
        return Window(self.step, values, self.steps, *self[3:])

    def with_steps(self, steps: int) -> Window:
        return Window(self.step, self.values, steps, *self[3:])


EventKind = Literal[
    "attempt",  # a job's script says that attempt `value` starts
    "staging",  # took `value` seconds
    "preflight",  # took `value` seconds
    "resumed",  # from the checkpoint of step `step`
    "saving",
    "saved",  # took `value` seconds, if the log says so
    "validation",
    "length",  # the training is for `value` steps
    "lines",  # of the log are counted, since they have no step: it counts samples
    "engines",  # the program trains `value` models, each with an engine
    "arguments",  # settings that the program prints, in `settings`
    "end",  # of an attempt, after `value` seconds; `settings` has the reason
]


class Event(NamedTuple):
    """Something else that a log says; `step` and `value` are None where the line has none."""

    kind: EventKind
    step: int | None = None
    value: float | None = None
    settings: Mapping[str, str] = {}


class SlowRank(NamedTuple):
    """A rank that took `ratio` times the median of all ranks, in the share `often` of the steps.

    `what`: a step, or the part of a step that was compared.
    """

    rank: int
    ratio: float
    often: float
    steps: int
    what: str


class Odd(NamedTuple):
    """A value that nothing measured can be. `what`: its quantity; `line`: where it stands.

    `values`: how many of the quantity were left out.
    """

    what: str
    text: str
    line: int
    values: int = 1


class Log(NamedTuple):
    """All that was read from the log of one job, in the order of its lines.

    `format`: its name, "" if no line was understood. `lines` and `bytes` that were read; `dropped`:
    lines that look like the format's, but are damaged; `unknown`: the most frequent other lines.
    `odd`: values that were left out, since nothing that is measured has them. `span`: seconds
    between the time stamps of the first and the last line with a step, if they have any. `unused`:
    lines that have values but no step, and the number of the first one.
    `slow_ranks`: those that were slower than the others, if the log has lines of all of them.
    `start`: its first bytes, if no format has a step in it. `assumed`: a line of which the number
    that rises evenly was taken for the step, "" if the lines name it.
    """

    format: str
    records: tuple[Window | Event, ...]
    lines: int = 0
    bytes: int = 0
    dropped: int = 0
    unknown: tuple[str, ...] = ()
    slow_ranks: tuple[SlowRank, ...] = ()
    odd: tuple[Odd, ...] = ()
    span: float | None = None
    unused: int = 0
    unused_line: int = 0
    start: builtins.bytes = b""
    assumed: str = ""
