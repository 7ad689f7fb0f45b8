"""Finds the last step and the last metric in a job's log.

It knows the formats of log lines, and reads the end of a log; it must not know jobs.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from clusterjobs.regular_file import open_regular

END = 64 << 10  # bytes of a log that are read for its last step
_LAST_LINES = 4 << 10

# For programs whose framework declares no line, the most certain form first. `bar`: of tqdm.
_STEPS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\biteration:? +(?P<step>\d{1,15}) */ *(?P<steps>\d{1,15})",  # Megatron, GPT-NeoX
        r"\b(?:global_step|num_updates)\b\"?[ =:]+\"?(?P<step>\d{1,15})",  # NeMo, fairseq
        r"(?i)\bsteps?\b[\"']?[ =:/#]+(?P<step>\d{1,15})(?![\d.,]*\d|\w)"
        r"(?: */ *(?P<steps>\d{1,15}))?",
        r"\[batch=(?P<step>\d{1,15})(?:/(?P<steps>\d{1,15}))?\]",  # Composer
        r"\bIter(?:ation)? ?#?:? ?(?P<step>\d{1,15})\b",  # Horovod's examples
        r"\|\s*(?P<step>\d{1,15})/(?P<steps>\d{1,15}) \[",  # tqdm: Hugging Face Trainer, Lightning
    )
)
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class Step(NamedTuple):
    """The last step in a log; `steps`: the total, None if the log does not have it."""

    step: int
    steps: int | None

    def __str__(self) -> str:
        return str(self.step) if self.steps is None else f"{self.step}/{self.steps}"


def read_log_end(log: pathlib.Path, most: int = END) -> str:
    """The last bytes of a log, without a line that is cut; "" if it is no regular file."""
    try:
        with open_regular(log) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return ""
    text = data.decode(errors="replace")
    return text.partition("\n")[2] or text if size > most else text


def last_logged_step(log: pathlib.Path, patterns: Iterable[str] = ()) -> Step | None:
    """The last step of a log. `patterns`: as of `last_step`."""
    forms = _forms(patterns)
    sizes = (_LAST_LINES, END)  # mostly it is in the very last lines
    found = (_last(read_log_end(log, most), known) for known in forms for most in sizes)
    return next(filter(None, found), None)


def last_step(text: str, patterns: Iterable[str] = ()) -> Step | None:
    """The last step in the text. `patterns`: of the framework, with a group `step`."""
    return next(filter(None, (_last(text, known) for known in _forms(patterns))), None)


_Forms = tuple[re.Pattern[str], ...]


def _forms(patterns: Iterable[str]) -> list[_Forms]:
    """The framework's own come first."""
    return [one for one in (tuple(map(re.compile, patterns)), _STEPS) if one]


def _last(text: str, patterns: _Forms) -> Step | None:
    return next(filter(None, (_step(line, patterns) for line in reversed(_lines(text)))), None)


def _step(line: str, patterns: _Forms) -> Step | None:
    """The last one of a line: a result may follow a progress bar in the same line."""
    for pattern in patterns:
        for found in reversed(list(pattern.finditer(line))):
            numbers = found.groupdict()
            step, steps = _number(numbers.get("step")), _number(numbers.get("steps"))
            if step is not None:
                return Step(step, steps)
    return None


def _number(text: str | None) -> int | None:
    """Python refuses to read numbers of thousands of digits."""
    return int(text) if text and len(text) < 16 and text.isdecimal() else None


def last_match(text: str, pattern: re.Pattern[str]) -> str:
    """What the pattern's one group matched last; "" if nothing did."""
    for line in reversed(_lines(text)):
        if found := list(pattern.finditer(line)):
            return found[-1][1] or ""
    return ""


def _lines(text: str) -> list[str]:
    """Without colours. A progress bar overwrites its line with a carriage return."""
    return _COLOURS.sub("", text).replace("\r", "\n").split("\n")
