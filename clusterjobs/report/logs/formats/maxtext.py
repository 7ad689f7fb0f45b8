"""MaxText's line of a step.

    completed step: 12, seconds: 15.516, TFLOP/s/device: 508.371, Tokens/s/device: 5279.0, loss: 5.1

Steps count from 0. The first ones are dispatched without waiting for them, so that a step takes
0.002 s and the next one 12 s: a speed counts once two steps in a row agree.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from clusterjobs.report.logs.formats import Field, FieldsFormat
from clusterjobs.report.logs.records import Quantity

_NEAR = 0.1
_SPEEDS = ("seconds", "tokens_per_second_per_gpu", "printed_tflops_per_gpu")


class MaxText(FieldsFormat):
    _before: float | None = None
    _agree = False

    def checked(self, values: Mapping[Quantity, float]) -> Mapping[Quantity, float]:
        now, before = values.get("seconds"), self._before
        self._before = now
        if now and before and abs(now - before) <= _NEAR * before:
            self._agree = True
        if self._agree:
            return values
        return {name: value for name, value in values.items() if name not in _SPEEDS}


_FIELDS = (
    Field("seconds: ", "seconds"),
    Field("TFLOP/s/device: ", "printed_tflops_per_gpu"),
    Field("Tokens/s/device: ", "tokens_per_second_per_gpu"),
    Field(" loss: ", "loss"),
)
format_of_log = functools.partial(
    MaxText, "maxtext", "completed step: ", r"\bcompleted step: (\d{1,15}), ", _FIELDS
)
