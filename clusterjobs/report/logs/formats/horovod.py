"""The lines of Horovod's examples (examples/pytorch, examples/tensorflow2 of its repository).

    Iter #9: 312.4 img/sec per GPU
    Total img/sec on 16 GPU(s): 4974.2 +-38.1

The synthetic benchmarks count iterations of several batches from 0, and print samples/s of one
rank, behind `Number of GPUs: 16`.
"""

import re
from collections.abc import Iterable

from clusterjobs.report.logs.records import Event, Quantity, Window

_ITERATION = re.compile(
    r"\bIter #(\d{1,15}): ([\d.]{1,20}) (?:img|samples|seq)/sec per (?:GPU|CPU|device)"
)
_RANKS = re.compile(r"\bNumber of (?:GPU|CPU|device)s: (\d{1,7})\b")


class Horovod:
    name = "horovod"
    hints = ("/sec per ", "Number of ")

    def __init__(self) -> None:
        self._ranks: int | None = None
        self._from_zero = 0

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        if found := _RANKS.search(line):
            self._ranks = int(found[1])
        for found in _ITERATION.finditer(line):
            number, rate = int(found[1]), float(found[2])
            if number == 0:
                self._from_zero = 1
            values: dict[Quantity, float] = {"samples_per_second_per_gpu": rate}
            if self._ranks:
                values["samples_per_second"] = rate * self._ranks
            yield Window(number + self._from_zero, values, None, rank)


format_of_log = Horovod
