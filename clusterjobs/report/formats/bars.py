"""Progress bars of tqdm: how far a training is, and how long it has taken.

12%|##        | 12/100 [00:05<00:40,  2.20it/s, v_num=0, train_loss=2.310]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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
    """The bars in a line."""
    for found in _BAR.finditer(line):
        seconds = 0
        for part in found["elapsed"].split(":"):
            seconds = 60 * seconds + int(part)
        numbers = int(found["done"]), int(found["total"])
        yield Bar(*numbers, seconds, found["rest"], found.start(), found.end())
