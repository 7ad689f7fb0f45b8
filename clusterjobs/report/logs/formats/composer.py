"""Composer's console log: a line with the batch, and one for each metric below it.

    [epoch=1][batch=10/200]:
         Train loss/train/total: 2.3101
         Train throughput/samples_per_sec: 51.2000

Source: composer/loggers/console_logger.py. With a length in epochs, batches count in each epoch;
with one in tokens or samples, the head has no batch, and the log has no steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.logs.records import Event, Quantity, Window

_HEAD = re.compile(r"(?:\[epoch=(\d{1,9})\])?\[batch=(\d{1,15})(?:/(\d{1,15}))?\]")
_METRIC = re.compile(r"\bTrain ([A-Za-z][\w/.-]{0,80}): ([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))")
_NAMES: dict[str, Quantity] = {
    "loss/train/total": "loss",
    "throughput/samples_per_sec": "samples_per_second",
    "throughput/tokens_per_sec": "tokens_per_second",
    "throughput/device/mfu": "printed_mfu",
}


class Composer:
    """One log. Each rank prints its own lines."""

    name = "composer"
    hints = ("[batch=", "Train loss/train/total: ", "Train throughput/", "Train lr-")

    def __init__(self) -> None:
        self._steps: dict[int | None, int] = {}

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        if (head := _HEAD.search(line)) and "[Eval " not in line:
            epoch, total = int(head[1] or 1), int(head[3] or 0)
            self._steps[rank] = int(head[2]) + ((epoch - 1) * total if head[1] else 0)
        step = self._steps.get(rank)
        if not step:
            return
        for name, text in _METRIC.findall(line):
            quantity = "learning_rate" if name.startswith("lr-") else _NAMES.get(name)
            if quantity:
                yield Window(step, {quantity: float(text)}, None, rank)


format_of_log = Composer
