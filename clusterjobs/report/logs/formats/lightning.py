"""Progress bars of epochs: Lightning's by tqdm, and that of Horovod's ImageNet example.

    Epoch 0:  12%|#2        | 12/100 [00:05<00:40,  2.20it/s, v_num=0, train_loss=2.310]
    Train Epoch     #1:  12%|#2        | 12/100 [00:05<00:40,  2.20it/s, loss=2.31, accuracy=1.5]

The bar counts batches of an epoch: with accumulation these are more than steps. The speed in a bar
is smoothed, so the time between two bars counts instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clusterjobs.report.logs.records import Event, Quantity, Window

HINT = "%|"
LEAST_SECONDS = 20.0  # a bar has whole seconds: a shorter time would be too uncertain
_BAR = re.compile(
    r"%\|[^|\[\]]{0,500}\| *(?P<done>\d{1,15})/(?P<total>\d{1,15}) "
    r"\[(?P<elapsed>(?:\d{1,4}:)?\d{1,2}:\d\d)<[^][,]{0,20}, +[^][,]{0,40}(?P<rest>[^][]{0,2000})\]"
)


class Bar(NamedTuple):
    """`seconds` since the bar began; `rest`: what the program shows behind the speed.

    `end`: where the text behind the bar begins.
    """

    done: int
    total: int
    seconds: int
    rest: str
    start: int
    end: int


def bars_of(line: str) -> Iterator[Bar]:
    """The progress bars of tqdm in a line: how far a training is, and how long it has taken."""
    for found in _BAR.finditer(line):
        seconds = 0
        for part in found["elapsed"].split(":"):
            seconds = 60 * seconds + int(part)
        numbers = int(found["done"]), int(found["total"])
        yield Bar(*numbers, seconds, found["rest"], found.start(), found.end())


_EPOCH = re.compile(r"\bEpoch +(#?)(\d{1,9}): +\d{1,3}$")
_LOSS = re.compile(r"\b(?:train[_/])?loss(?:_step)?=([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))")


class Lightning:
    name = "lightning"
    hints = ("Epoch ",)

    _last: tuple[int, Bar] | None = None  # epoch and bar of the window before
    _shown: tuple[int, int] | None = None  # epoch and batch of the bar before

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        for bar in bars_of(line):
            found, loss = _EPOCH.search(line, 0, bar.start), _LOSS.search(bar.rest)
            if not found or not bar.done:
                continue
            epoch = int(found[2]) - len(found[1])  # Horovod's count from 1
            self.name = "horovod" if found[1] else self.name
            # Each batch is drawn twice: first with the values of an earlier one.
            is_new, self._shown = self._shown != (epoch, bar.done), (epoch, bar.done)
            if is_new or not loss:
                continue
            if self._last and (self._last[0], self._last[1].done) == (epoch, bar.done):
                continue
            values: dict[Quantity, float] = {"loss": float(loss[1])}
            if seconds := self._seconds(epoch, bar):
                values["seconds"] = seconds
            self._last = (epoch, bar)
            yield Window(epoch * bar.total + bar.done, values, None, rank)

    def _seconds(self, epoch: int, bar: Bar) -> float | None:
        """The time of a batch since the window before, if both are of one epoch."""
        if self._last is None or self._last[0] != epoch or bar.done <= self._last[1].done:
            return None
        before = self._last[1]
        elapsed = bar.seconds - before.seconds
        return elapsed / (bar.done - before.done) if elapsed >= LEAST_SECONDS else None


format_of_log = Lightning
