"""Lightning's progress bar by tqdm, in the log; CSVLogger's metrics.csv says more and is exact.

    Epoch 0:  12%|#2        | 12/100 [00:05<00:40,  2.20it/s, v_num=0, train_loss=2.310]

The bar counts batches of an epoch: with accumulation these are more than steps. The speed in a bar
is smoothed, so the time between two bars counts instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.formats.bars import LEAST_SECONDS, Bar, bars_of
from clusterjobs.report.records import Event, Quantity, Window

_EPOCH = re.compile(r"\bEpoch (\d{1,9}): +\d{1,3}$")
_LOSS = re.compile(r"\b(?:train[_/])?loss(?:_step)?=([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))")


class Lightning:
    """One log."""

    name = "lightning"
    hints = ("Epoch ",)

    def __init__(self) -> None:
        self._last: tuple[int, Bar] | None = None  # the epoch and the bar of the window before

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        for bar in bars_of(line):
            epoch = _EPOCH.search(line, 0, bar.start)
            loss = _LOSS.search(bar.rest)
            if not epoch or not loss or not bar.done:
                continue
            step = int(epoch[1]) * bar.total + bar.done
            values: dict[Quantity, float] = {"loss": float(loss[1])}
            before = self._last
            if before and before == (int(epoch[1]), bar._replace(rest=before[1].rest)):
                continue
            if before and before[0] == int(epoch[1]) and bar.done > before[1].done:
                elapsed = bar.seconds - before[1].seconds
                if elapsed >= LEAST_SECONDS:
                    values["seconds"] = elapsed / (bar.done - before[1].done)
            self._last = (int(epoch[1]), bar)
            yield Window(step, values, None, rank)


def format_of_log() -> Lightning:
    """A new object for one log."""
    return Lightning()
