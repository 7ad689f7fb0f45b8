"""Reads the usual lines of Megatron fast: one pattern for all the fields of such a line.

It reads bytes as they are in the file, and finds what `megatron.py` finds in the same line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from clusterjobs.report.records import Quantity, Window

_LABEL = rb" *(?:(?P<rank>\d{1,7}): )?"  # srun --label
_CLOCK = rb" *(?:\[(?P<second>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?P<fraction>\.\d{1,9})?\])?"
_STEP = rb" *iteration +(?P<step>\d{1,15})/ *"
_START = re.compile(_CLOCK.decode() + _STEP.decode() + r"(?P<steps>\d{1,15} *\|)")
_NUMBER = rb": *([-+\d.eE]+|nan|inf) *\|"
_ANY_FIELD = rb"[^|\r\x1b\[/]*\|"  # with no time stamp, nor a second `iteration 1/ 2`
_MOST = 20  # layouts that are learned in a log, so that damaged lines do not cost memory
_OTHERS = 4  # groups before the fields


class Layout:
    """The fields of the last line that was learned. Other lines do not match."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], re.Pattern[bytes] | None] = {}
        self._pattern: re.Pattern[bytes] | None = None
        self._names: list[Quantity] = []
        self._scaled: list[tuple[Quantity, float]] = []  # those of another unit than the log's

    def learn(self, line: str, fields: Mapping[str, tuple[Quantity, float]]) -> None:
        """`line`: without a label. `fields`: quantity and unit of each field that is known."""
        start = _START.match(line)
        names = tuple(part.rpartition(":")[0] for part in line.split("|")[1:-1])
        if not start:
            return
        layout = start["steps"], *names
        if layout not in self._known and len(self._known) >= _MOST:
            return
        found = [fields.get(name.strip()) for name in names]
        known = [one for one in found if one]
        self._names = [name for name, _ in known]
        self._scaled = [(name, unit) for name, unit in known if unit != 1]
        if layout not in self._known:
            is_clear = len(set(self._names)) == len(self._names)
            self._known[layout] = _pattern(start["steps"], names, found) if is_clear else None
        self._pattern = self._known[layout]

    def read(self, raw: bytes) -> Window | None:
        """The window of a line; None if it has another layout."""
        found = self._pattern.fullmatch(raw) if self._pattern else None
        if not found:
            return None
        groups = found.groups()
        rank, second, fraction, step = groups[:_OTHERS]
        try:
            numbers = map(float, groups[_OTHERS:])
            values = dict(zip(self._names, numbers, strict=True))
            if second:
                time = datetime.fromisoformat(second.decode() + "+00:00").timestamp()
                values["time"] = time + float(fraction or 0)
        except ValueError:
            return None
        for name, unit in self._scaled:
            values[name] *= unit
        return Window(int(step), values, None, int(rank) if rank else None)


def _pattern(
    steps: str, names: Sequence[str], found: Sequence[tuple[Quantity, float] | None]
) -> re.Pattern[bytes]:
    """Of lines with the same length of the training and the same fields."""
    fields = (
        re.escape(name).encode() + _NUMBER if known else _ANY_FIELD
        for name, known in zip(names, found, strict=True)
    )
    start = _LABEL + _CLOCK + _STEP + re.escape(steps).encode()
    return re.compile(start + b"".join(fields) + b" *")
