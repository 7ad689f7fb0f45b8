"""LitGPT's line: iterations are micro batches, of which a step has one or more.

    Epoch 1 | iter 128 step 16 | loss train: 2.310, val: n/a | iter time: 512.30 ms (step)

The time is that of the last micro batch: of a step only where each has one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.logs.records import Event, Quantity, Window

_LINE = re.compile(
    r"\| iter (?P<batches>\d{1,15}) step (?P<step>\d{1,15}) \| "
    r"loss train: (?P<loss>[-+\d.einfa]+), val: \S+ \| iter time: (?P<time>[\d.]+) ms"
)


class LitGpt:
    """One log. Of the lines of a step, the first one counts."""

    name = "litgpt"
    hints = ("iter time: ",)

    _last = 0

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        found = _LINE.search(line)
        if not found or int(found["step"]) in (0, self._last):
            return
        self._last = int(found["step"])
        values: dict[Quantity, float] = {"loss": float(found["loss"])}
        if found["batches"] == found["step"]:
            values["seconds"] = float(found["time"]) / 1000
        yield Window(self._last, values, None, rank)


format_of_log = LitGpt
