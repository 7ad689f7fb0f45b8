"""Reads many lines at once that differ in their numbers alone: lines of one form.

The format reads the first line of a form, and says where the numbers stand that make its window.
Then all lines of the form are cut into their numbers together, and each value is a column.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from clusterjobs.report.logs.bounds import MOST_STEPS
from clusterjobs.report.logs.records import Window

_IN_NUMBERS = b"0123456789.+-eE"
_CUT = bytes(byte if byte in _IN_NUMBERS else ord(" ") for byte in range(256))
_END = (
    b"\ne\n"  # between two lines; counts as a number, so that each line has to have all of its own
)
_LABEL = re.compile(rb" *\d{1,7}: ")  # srun --label
_SECONDS = {b"%02d" % second: second for second in range(60)}
_MOST = 200  # forms that are learned in a log, so that damaged lines do not cost memory
_LONGEST = 16  # lines of a step
_MOST_ROWS = 1024
_OF_A_GROUP = 3  # digits


class Place(NamedTuple):
    """A number that belongs to the window of a line, and where it begins in the line.

    `name`: a quantity or what the format makes one of; "step"; "time" for a time stamp; "same" for
    a number that is the same in all lines of the form. `groups` of digits have commas between them.
    """

    name: str
    start: int
    scale: float = 1.0
    is_inverse: bool = False
    groups: int = 1


class Rows(NamedTuple):
    """The windows of neighbouring lines, as columns. `ranks`: None if the lines have no labels."""

    steps: list[int]
    values: dict[str, list[float]]
    ranks: list[int] | None = None

    def is_rising(self) -> bool:
        return all(map(operator.lt, self.steps, self.steps[1:]))

    def part(self, start: int, end: int | None = None) -> Rows:
        cut = slice(start, end)
        values = {name: one[cut] for name, one in self.values.items()}
        return Rows(self.steps[cut], values, self.ranks and self.ranks[cut])

    def are_of_one_rank(self) -> bool:
        return len(set(self.ranks or ())) < 2

    def windows(self) -> list[Window]:
        unknown = itertools.repeat(None)
        pairs = map(
            zip, itertools.repeat(tuple(self.values)), zip(*self.values.values(), strict=True)
        )
        ranks = self.ranks or unknown
        return [*map(Window, self.steps, map(dict, pairs), unknown, ranks)]  # type: ignore[arg-type]


class Form(NamedTuple):
    """The lines of one step. `size`: how many numbers they have; the places are among these."""

    size: int
    places: tuple[Place, ...]
    same: tuple[tuple[int, bytes], ...]

    def names(self) -> set[str]:
        return {place.name for place in self.places}

    def read(self, lines: Iterable[bytes], count: int) -> Rows | None:
        """The rows of so many steps; None if a line is not as the first one was."""
        numbers = (_END.join(lines) + _END).translate(_CUT).split()
        if len(numbers) != count * self.size:
            return None
        if any(numbers[at :: self.size].count(text) != count for at, text in self.same):
            return None
        found: dict[str, list[float]] = {}
        try:
            for place in self.places:
                column = _column(place, numbers, self.size)
                if found.setdefault(place.name, column) != column:
                    return None
        except (ValueError, KeyError):
            return None
        steps, ranks = found.pop("step"), found.pop("rank", None)
        if not 0 <= min(steps) <= max(steps) < MOST_STEPS:
            return None
        return Rows(steps, found, ranks)  # type: ignore[arg-type]


def _column(place: Place, numbers: Sequence[bytes], size: int) -> list[float]:
    """Raises ValueError for what is no number, KeyError for no second of a time stamp."""
    texts = numbers[place.start :: size]
    if place.name in ("step", "rank"):
        return [*map(int, texts)]
    if place.name == "time":
        parts = (numbers[place.start + one :: size] for one in range(1, 4))
        return [
            _minute(day, hour, minute) + _SECONDS[second[:2]] + float(second[2:] or 0)
            for day, hour, minute, second in zip(texts, *parts, strict=True)
        ]
    for one in range(1, place.groups):
        further = numbers[place.start + one :: size]
        if any(len(text.partition(b".")[0]) != _OF_A_GROUP for text in further):
            raise ValueError("a decimal comma")
        texts = [*map(operator.add, texts, further)]
    column = [*map(float, texts)]
    scale = place.scale
    if scale != 1:
        column = [value * scale for value in column]
    return [1 / value if value else 0.0 for value in column] if place.is_inverse else column


@functools.lru_cache(maxsize=1024)
def _minute(day: bytes, hour: bytes, minute: bytes) -> int:
    """Seconds since 1970."""
    text = f"{day.decode()} {hour.decode()}:{minute.decode()}:00+00:00"
    return int(datetime.fromisoformat(text).timestamp())


class Forms:
    """The forms of a log that were learned so far, by the text of their lines without numbers."""

    def __init__(self) -> None:
        self._lines: dict[bytes, Form | None] = {}  # None: it has to be read line by line
        self._steps: dict[tuple[bytes, ...], Form | None] = {}  # of several lines each

    def wants(self, key: bytes) -> bool:
        """Whether nothing is known of a form yet."""
        return key not in self._lines and len(self._lines) < _MOST

    def learn(self, key: bytes, line: bytes, text: str, places: Sequence[Place]) -> None:
        """`places` in the text of a line, which has neither its label nor colours."""
        label = _LABEL.match(line)
        start = label.end() if label else 0
        is_plain = line[start:].rstrip(b"\r") == text.encode() and text.isascii()
        self._lines[key] = _form(line, start, places) if places and is_plain else None

    def forget(self, keys: Iterable[bytes]) -> None:
        """Lines of these forms are not as the first ones were: the next ones are learned again."""
        for key in keys:
            self._lines.pop(key, None)
        self._steps.clear()

    def at(self, keys: Sequence[bytes], first: int) -> tuple[Form, int, int] | None:
        """The form that begins at a line, its lines in a step, and how many steps follow."""
        form = self._lines.get(keys[first])
        if not form or "step" not in form.names():
            return None
        behind = keys[first + 1 : first + 1 + _LONGEST]
        length = 1 + behind.index(keys[first]) if keys[first] in behind else 1
        if length > 1 and (joined := self._joined(tuple(keys[first : first + length]))):
            form = joined
        else:
            length = 1
        step, end = keys[first : first + length], first + length
        while keys[end : end + length] == step and end - first < _MOST_ROWS * length:
            end += length
        return form, length, (end - first) // length

    def _joined(self, keys: tuple[bytes, ...]) -> Form | None:
        """The form of several lines; None if one of them is read alone."""
        if keys not in self._steps and len(self._steps) < _MOST:
            forms = [self._lines.get(key) for key in keys]
            self._steps[keys] = _together([form for form in forms if form], len(keys))
        return self._steps.get(keys)


def _together(forms: Sequence[Form], length: int) -> Form | None:
    if len(forms) < length:
        return None
    places: list[Place] = []
    same: list[tuple[int, bytes]] = []
    size = 0
    for form in forms:
        places += [place._replace(start=place.start + size) for place in form.places]
        same += [(at + size, text) for at, text in form.same]
        size += form.size
    return Form(size, tuple(places), tuple(same))


def _form(line: bytes, start: int, places: Iterable[Place]) -> Form | None:
    """The form of a line; None if one of its numbers does not stand by itself."""
    numbers = (line + _END).translate(_CUT).split()
    known: list[Place] = []
    same = []
    if start:
        known.append(Place("rank", 0))
    for place in places:
        begin = start + place.start
        at = len(line[:begin].translate(_CUT).split())
        if not line.startswith(numbers[at], begin) or (begin and line[begin - 1] in _IN_NUMBERS):
            return None
        if place.name == "same":
            same.append((at, numbers[at]))
        else:
            known.append(place._replace(start=at))
    return Form(len(numbers), tuple(known), tuple(same))
