"""The line of PaddleFleetX and of Paddle's language model trainings.

    [train] epoch: 0, batch: 1, loss: 10.99, avg_batch_cost: 0.51164 sec, ips_total: 16011 tokens/s

Batches count from 0 in each epoch. `ips_total` is of the job, `ips` of one card.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from clusterjobs.report.logs.formats import Field, FieldsFormat
from clusterjobs.report.logs.records import Event, Window

_EPOCH = re.compile(r"\bepoch: (\d{1,15}), batch: ")


class Paddle(FieldsFormat):
    """One log. An epoch goes on where the one before it has ended in the log."""

    _epoch = 0
    _done = 0  # steps of the epochs before
    _last = 0

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        for window in super().read(line, rank):
            epoch = _EPOCH.search(line)
            if epoch and int(epoch[1]) > self._epoch:
                self._epoch, self._done = int(epoch[1]), self._last if self._last else 0
            if isinstance(window, Window):
                self._last = self._done + window.step
                yield window._replace(step=self._last)


_FIELDS = (
    Field(" loss: ", "loss"),
    Field("avg_batch_cost: ", "seconds"),
    Field("ips_total: ", "tokens_per_second"),
    Field("learning rate: ", "learning_rate"),
)
format_of_log = functools.partial(
    Paddle,
    "paddle",
    "avg_batch_cost: ",
    r"\[train\] epoch: \d+, batch: (\d{1,15}), ",
    _FIELDS,
)
