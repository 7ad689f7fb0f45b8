"""Finds the lines of a log that may say something, fast, and cleans them.

Lines that differ in their numbers alone have one form. Forms without the literals that are looked
for are left out at once, and only lines that are read alone are decoded.
"""

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.report.logs.records import Quantity, SlowRank, Window

LONGEST = 1 << 20  # bytes of a line: of a longer one the rest is dropped
_LONGEST_TEXT = 1 << 14  # characters: searching a longer one could take minutes
_LONGEST_LABEL = 200
_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
_NUMBERS = b"0123456789.+- "
_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"  # colours and moves of the cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[@-Z\\-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
_LABEL = re.compile(
    r" *(?P<task>\d{1,7}): "  # srun --label
    r"|\[(?:[^][,\s]*,)?(?P<mpi>\d{1,7})\]<std(?:out|err|diag)>: ?"  # mpirun, horovodrun
    r"|\[rank(?P<torch>\d{1,7})\]: ?"  # torch
    r"|\[default(?P<local>\d{1,7})\]: ?"  # torchrun --tee: the number on its node
)


class Line(NamedTuple):
    """A line without its labels and control characters. `rank`: who printed it, if it says so."""

    text: str
    rank: int | None


class Found(NamedTuple):
    """Lines of a block. `texts`: without colours; `forms`: without their numbers, too."""

    lines: Sequence[bytes]
    texts: Sequence[bytes]
    forms: Sequence[bytes]
    numbers: Sequence[int]  # from 1
    hints: Sequence[bytes]  # that were looked for


class LineFinder:
    """Cuts blocks into lines. `count` and `size` are of all lines, `cut`: those too long."""

    def __init__(self, hints: Iterable[str]) -> None:
        self.hints = [hint.encode() for hint in hints]
        self.count = self.size = self.cut = 0
        self._rest = b""

    def lines(self, block: bytes) -> Found:
        """The lines of a block whose form has a hint; the last one waits until its end is read."""
        self.size += len(block)
        block = self._rest + block
        end = max(block.rfind(b"\n"), block.rfind(b"\r")) + 1
        self._rest = _label(block, end) + block[end:]
        if len(self._rest) > LONGEST:
            self.cut += 1
            self._rest = self._rest[:LONGEST]
        block = block[:end]
        lines = texts = block.split(b"\n")
        numbers: Sequence[int] = range(self.count + 1, self.count + 1 + len(lines))
        self.count += len(lines) - 1
        if b"\x1b" in block:
            block = _COLOURS.sub(b"", block)
            texts = block.split(b"\n")
        forms = block.translate(None, _NUMBERS).split(b"\n")
        kinds = set(forms)
        hints = [hint.translate(None, _NUMBERS) for hint in self.hints]
        wanted = {form for form in kinds if any(hint in form for hint in hints)}
        if len(wanted) < len(kinds):
            are_wanted = [form in wanted for form in forms]
            lines, texts, forms = (
                [*itertools.compress(one, are_wanted)] for one in (lines, texts, forms)
            )
            numbers = [*itertools.compress(numbers, are_wanted)]
        return Found(lines, texts, forms, numbers, self.hints)


def _label(block: bytes, end: int) -> bytes:
    """The label of the line that goes on at `end`, behind a carriage return."""
    start = block.rfind(b"\n", 0, end) + 1
    if start == end:
        return b""
    text, place = block[start : min(end, start + _LONGEST_LABEL)].decode(errors="replace"), 0
    while found := _LABEL.match(text, place):
        place = found.end()
    return text[:place].encode()


def clean_lines(raw: bytes) -> list[Line]:
    """The states of a line that carriage returns overwrite, each without control characters.

    The label stands before the first of them.
    """
    rank = None
    found: list[Line] = []
    for part in raw.decode(errors="replace").split("\r"):
        text = part if part.isprintable() else _CONTROL.sub("", part)
        place = 0
        while label := _LABEL.match(text, place):
            number = label["mpi"] or label["torch"] or label["local"] or label["task"]
            rank, place = int(number), label.end()
        text = text[place:]
        if text and not text.isspace() and len(text) <= _LONGEST_TEXT:
            found.append(Line(text, rank))
    return found


_MOST = 3
_LENGTH = 160  # characters of a line that are shown
_NUMBER = re.compile(r"\d+")


def frequent_lines(text: bytes) -> tuple[str, ...]:
    """The most frequent lines of a log that no format knows, for a person who writes a pattern.

    Lines that differ only in their numbers count as the same.
    """
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for raw in text.split(b"\n"):
        for line in clean_lines(raw[:_LENGTH]):
            form = _NUMBER.sub("0", line.text)
            counts[form] += 1
            examples.setdefault(form, line.text)
    return tuple(examples[form] for form, _ in counts.most_common(_MOST))


# Ranks of a synchronous training differ in single steps by chance. So a rank is called slow only
# if it was slower than the usual rank in nearly all steps, and by more than a few percent.
STEPS = 2000  # the last ones, that are compared
_FEWEST_STEPS = 10
_FEWEST_RANKS = 3
_OFTEN = 0.9  # of the steps
_SLOWER = 1.05
# What a rank does alone comes first: the time of a whole step is that of the slowest rank.
_COMPARED: tuple[Quantity, ...] = ("data_seconds", "forward_seconds", "backward_seconds", "seconds")
_RATES: tuple[Quantity, ...] = (
    *("tokens_per_second_per_gpu", "samples_per_second_per_gpu"),
    *("tokens_per_second", "samples_per_second"),
)


class RankTimes:
    """The times of the last steps, by quantity, step and rank."""

    def __init__(self) -> None:
        self._times: dict[Quantity, dict[int, dict[int, float]]] = {}

    def add(self, window: Window) -> None:
        """Remember the window, if it says which rank it is of."""
        if window.rank is None:
            return
        for name, value in window.values.items():
            if value > 0 and name in (*_COMPARED, *_RATES):
                steps = self._times.setdefault(name, {})
                time = 1 / value if name in _RATES else value
                steps.setdefault(window.step, {})[window.rank] = time
                if len(steps) > STEPS:
                    del steps[next(iter(steps))]

    def slow(self) -> tuple[SlowRank, ...]:
        """The slow ranks of the first quantity that shows any, the slowest first."""
        for name in (*_COMPARED, *_RATES):
            if found := _slow(name, self._times.get(name, {})):
                return tuple(sorted(found, key=lambda one: -one.ratio))
        return ()


def _slow(name: Quantity, steps: Mapping[int, Mapping[int, float]]) -> list[SlowRank]:
    ratios: dict[int, list[float]] = {}
    for times in steps.values():
        if len(times) >= _FEWEST_RANKS:
            usual = statistics.median(times.values())
            for rank, time in times.items():
                ratios.setdefault(rank, []).append(time / usual)
    found = []
    for rank, of_rank in ratios.items():
        often = sum(one > 1 for one in of_rank) / len(of_rank)
        ratio = statistics.median(of_rank)
        if len(of_rank) >= _FEWEST_STEPS and often >= _OFTEN and ratio >= _SLOWER:
            what = "a step" if name == "seconds" or name in _RATES else name.partition("_")[0]
            found.append(SlowRank(rank, ratio, often, len(of_rank), what))
    return found
