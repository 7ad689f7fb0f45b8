"""Finds the step in lines that do not name it: the number that rises evenly from line to line.

    [100] train_loss=6.31, accuracy=0.12        Up. 500 : Cost 8.51 : Time 97.3s
    [200] train_loss=5.92, accuracy=0.14        Up. 1000 : Cost 7.92 : Time 96.8s

Only lines with a loss are looked at: other programs count documents, files and retries.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.report.logs.general.names import OWN, THINGS, field_of
from clusterjobs.report.logs.general.numbers import STAMP, numbers_of
from clusterjobs.report.logs.lines import clean_lines

_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?|\b(?:nan|inf)\b")
_WHOLE = re.compile(r"\d{1,9}|\d{1,3}(?:,\d{3}){1,2}")
_CLOCK = re.compile(rf"{STAMP}|\d+(?::\d\d){{1,2}}(?:\.\d+)?|\d{{4}}-\d\d-\d\d")
_NO_STEP = re.compile(r" ?(?:%|(?:ms|us|secs?|seconds?|s|mins?|minutes?|hrs?|hours?|[kmgt]i?b)\b)")
_SPACES = re.compile(r"\s+")
_BEFORE = re.compile(r"[a-z]+")
_UNIT = re.compile(r" ?([a-z]+)\b(?![ :=]*\d)")  # not the name of the next number
FEWEST = 8  # lines that show how a number rises
_EVEN = 0.8  # of the differences, which are equal
_LONGEST = 1000  # characters of a line


class Form(NamedTuple):
    """Lines that differ in their numbers alone, and which of the numbers is the step.

    `text` has no numbers. `is_epoch`: the number counts epochs. `line`: the first of them.
    """

    text: str
    place: int
    is_epoch: bool
    line: str

    def step_in(self, line: str) -> tuple[int, int] | None:
        """Start and end of the step in a lower-case line; None if the line has another form."""
        text, numbers = _form_of(line)
        return numbers[self.place].span() if text == self.text else None


def form_with_step(text: bytes) -> Form | None:
    """The form of most lines with a loss whose step can be told; None if there is none."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    examples: dict[str, str] = {}
    for raw in text.split(b"\n"):
        for one in clean_lines(raw[:_LONGEST]):
            form, numbers = _form_of(line := one.text.lower())
            if numbers:
                lines[form].append(line)
                examples.setdefault(form, one.text.strip())
    for form, alike in sorted(lines.items(), key=lambda item: -len(item[1])):
        if len(alike) >= FEWEST and _has_loss(alike[0]):
            place = _rising(alike)
            if place is not None:
                before, _ = _words_around(alike[0], place)
                is_epoch = before[-1:] in (["epoch"], ["epochs"], ["ep"])
                return Form(form, place, is_epoch, examples[form])
    return None


def _form_of(line: str) -> tuple[str, list[re.Match[str]]]:
    """The line without its numbers, and these."""
    clock = [one.span() for one in _CLOCK.finditer(line)]
    numbers = [
        one
        for one in _NUMBER.finditer(line)
        if not any(start <= one.start() < end for start, end in clock)
    ]
    parts, end = [], 0
    for one in numbers:
        parts.append(line[end : one.start()])
        end = one.end()
    text = "0".join([*parts, line[end:]])
    return _SPACES.sub(" ", _CLOCK.sub("0", text)).strip(), numbers


def _has_loss(line: str) -> bool:
    fields = (field_of(one.name, one.unit, OWN) for one in numbers_of(line)[0])
    return any(one and one.meaning == "loss" and not one.is_other for one in fields)


def _words_around(line: str, place: int) -> tuple[list[str], list[str]]:
    """The words in front of a number, up to the number before, and the one directly behind it."""
    _, numbers = _form_of(line)
    start = numbers[place - 1].end() if place else 0
    unit = _UNIT.match(line, numbers[place].end())
    return _BEFORE.findall(line[start : numbers[place].start()]), [unit[1]] if unit else []


def _rising(lines: Sequence[str]) -> int | None:
    """The place of the number that rises by the same from line to line.

    Of several, the one that rises least: a step has many samples. Of `steps 100-200`, the last.
    """
    rows = [[*map(_counted, _form_of(line)[1])] for line in lines]
    found: list[tuple[int, int, int]] = []
    for place in range(len(rows[0])):
        column = [row[place] for row in rows]
        values = [value for value, _ in itertools.groupby(column) if value is not None]
        before, behind = _words_around(lines[0], place)
        if None in column or THINGS & {*before, *behind}:
            continue
        steps = [after - one for one, after in itertools.pairwise(values)]
        usual, count = Counter(steps).most_common(1)[0] if steps else (0, 0)
        if len(values) >= FEWEST and usual > 0 and count >= _EVEN * len(steps):
            found.append((usual, -values[-1], place))
    return min(found)[2] if found else None


def _counted(number: re.Match[str]) -> int | None:
    """What a number counts; None for `0.5`, `10%`, `20 s` and `-3`, but not for that of `1-3`."""
    line, text = number.string, number[0]
    if text.startswith("-") and line[max(0, number.start() - 1) : number.start()].isdigit():
        text = text[1:]
    if not _WHOLE.fullmatch(text) or _NO_STEP.match(line, number.end()):
        return None
    return int(text.replace(",", ""))
