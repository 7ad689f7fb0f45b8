"""The first Python traceback of a job's last attempt, and the rank that printed it.

It knows how launchers label the lines of ranks; it must not know where a log is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST = 4 << 20  # bytes of the end of a log that are searched
LINES = 12  # of a traceback that are shown

_START = "Traceback (most recent call last):"
_LONGEST_LABEL = 256
_LONGEST_LINE = 300
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LINE_ENDS = re.compile(r"\r+\n?")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_ENDED = re.compile(r"(?m)^clusterjobs: job [0-9_]+ ended with exit code .*$")
_FAILED_TASK = re.compile(r"(?m)^srun: error: .*?: tasks? (\d+)")
_RANKS = re.compile(r"\[rank(\d+)\]|\[(?:[^][]*,)?(\d+)\]<std\w+>|^ *(\d+): ")
_LOCAL = re.compile(r"\[default(\d+)\]")


class Traceback(NamedTuple):
    """`rank`: "3", "local rank 3", or "" where the lines have no label."""

    rank: str
    lines: tuple[str, ...]


def first_traceback(log: str) -> Traceback | None:
    """The end of the first traceback of the last attempt.

    If srun has named the task that failed first, the first one of that task.
    """
    text = _last_attempt(_LINE_ENDS.sub("\n", _COLOURS.sub("", log)))
    starts = list(_starts(text))
    if not starts:
        return None
    failed = _FAILED_TASK.search(text)
    task = re.compile(rf" *{failed[1]}: ") if failed else None
    at, label = next((one for one in starts if task and task.match(one[1])), starts[0])
    lines = [line[:_LONGEST_LINE] for line in _lines(text[at:], label)]
    return Traceback(_rank(label), tuple(lines[-LINES:]))


def _last_attempt(text: str) -> str:
    """The last attempt, or the one before it, if that alone has a traceback."""
    parts = _ENDED.split(text)
    return next((part for part in reversed(parts[-2:]) if _START in part), "")


def _starts(text: str) -> Iterator[tuple[int, str]]:
    """The positions of the first lines of tracebacks, and their labels."""
    found = -1
    while (found := text.find(_START, found + 1)) >= 0:
        start = text.rfind("\n", 0, found) + 1
        if found - start <= _LONGEST_LABEL:
            yield start, text[start:found]


def _lines(text: str, label: str) -> list[str]:
    """The lines with that label, to the exception; with those of exceptions that followed it."""
    found: list[str] = []
    labelled = (line[len(label) :] for line in text.splitlines() if line.startswith(label))
    is_open = True
    for line in labelled:
        if is_open:
            found.append(line)
            is_open = not found[1:] or not line.strip() or line[:1].isspace()
        elif line.startswith(_CHAINED):
            found += ["", line]
        elif line.startswith("Traceback ") and found[-1].startswith(_CHAINED):
            found.append(line)
            is_open = True
        elif line.strip():
            break
    return found


def _rank(label: str) -> str:
    if local := _LOCAL.search(label):
        return f"local rank {local[1]}"
    numbers = [number for match in _RANKS.findall(label) for number in match if number]
    return numbers[-1] if numbers else ""
