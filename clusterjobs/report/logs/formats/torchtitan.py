"""torchtitan's line of metrics (torchtitan/components/metrics.py).

    step: 10  loss:  7.12345  grad_norm:  1.2345  memory: 42.10GiB(53.20%)  tps: 6,123  tflops: ...

tokens/s are of one GPU; every rank may print the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.logs.records import Event, Quantity, Window

_STEP = re.compile(r"(?<!validate )\bstep: +(\d{1,15}) +loss: ")
_FIELD = re.compile(r"\b(loss|grad_norm|memory|tps|wps|tflops|mfu): +([-\d.,einfa]+)")
_NAMES: dict[str, tuple[Quantity, float]] = {
    "loss": ("loss", 1.0),
    "grad_norm": ("grad_norm", 1.0),
    "memory": ("memory_gib", 1.0),
    "tps": ("tokens_per_second_per_gpu", 1.0),
    "wps": ("tokens_per_second_per_gpu", 1.0),  # in 2024
    "tflops": ("printed_tflops_per_gpu", 1.0),
    "mfu": ("printed_mfu", 0.01),  # N/A with float8
}


class Torchtitan:
    name = "torchtitan"
    hints = ("grad_norm: ", " tps: ", " wps: ")

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        if step := _STEP.search(line):
            found = ((_NAMES[name], text.replace(",", "")) for name, text in _FIELD.findall(line))
            values = {name: float(text) * unit for (name, unit), text in found}
            return (Window(int(step[1]), values, None, rank),)
        return ()


format_of_log = Torchtitan
