"""Lines of a program of the user's own, by the patterns of the spec's key `report`."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import cast

from clusterjobs.report.logs.records import Event, Quantity, Window

_LONGEST = 4096  # characters of a line: the pattern may take long on a longer one


class OwnPattern:
    """`pattern` with named groups, or a pattern with one group for each name in `values`."""

    name = "own pattern"
    hints: tuple[str, ...] = ("",)  # any line may match

    def __init__(self, pattern: str | None, values: Mapping[str, str]) -> None:
        self._pattern = re.compile(pattern) if pattern else None
        self._values = {name: re.compile(text) for name, text in values.items()}

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        texts = self._texts(line[:_LONGEST])
        step = number_of("step", texts.pop("step", None))
        found = {
            name: number
            for name, text in texts.items()
            if (number := number_of(name, text)) is not None
        }
        if step is None or not math.isfinite(step) or not found:
            return ()
        return (Window(int(step), cast("dict[Quantity, float]", found), None, rank),)

    def _texts(self, line: str) -> dict[str, str | None]:
        if self._pattern:
            found = self._pattern.search(line)
            return found.groupdict() if found else {}
        matches = {name: pattern.search(line) for name, pattern in self._values.items()}
        return {name: found[1] for name, found in matches.items() if found}


def number_of(name: str, text: str | None) -> float | None:
    """The number in a text; None if it is none.

    A comma in a step or a rate is between thousands (`6,123`), in other values it is a decimal
    comma (`3,512`), unless the number has a point, too.
    """
    if text is None:
        return None
    is_decimal = not name.startswith(("step", "samples", "tokens")) and "." not in text
    try:
        return float(text.replace(",", "." if is_decimal else ""))
    except ValueError:
        return None
