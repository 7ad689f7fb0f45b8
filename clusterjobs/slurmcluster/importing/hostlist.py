"""Expands Slurm's lists of nodes: `a[01-10,12]b[1-2]`. It knows nothing else of nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

MAX_NODES = 200_000
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


class HostlistError(ValueError):
    """The text is no list of nodes; the message says why."""


def expand(text: str) -> list[str]:
    """The names of all nodes. Raises HostlistError for what cannot be one, or is too long."""
    names: list[str] = []
    for one in _split(text):
        names += itertools.islice(_names(one), MAX_NODES + 1 - len(names))
        if len(names) > MAX_NODES:
            raise HostlistError(f"more than {MAX_NODES:,} nodes")
    return names


def _split(text: str) -> list[str]:
    """The parts between commas that are not in brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            break
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    if depth:
        raise HostlistError("a bracket is not closed" if depth == 1 else "brackets do not fit")
    return [part.strip() for part in parts if part.strip()]


def _names(text: str) -> Iterator[str]:
    found = _PART.finditer(text)
    parts = [[one[2]] if one[2] is not None else _numbers(one[1]) for one in found]
    return map("".join, itertools.product(*parts))


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if not match:
            raise HostlistError(f"[{text[:40]}] has no range of numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise HostlistError(f"{piece.strip()} counts down")
        if int(last) - int(first) + len(found) > MAX_NODES:
            raise HostlistError(f"more than {MAX_NODES:,} nodes")
        width = len(first)
        found += [f"{number:0{width}}" for number in range(int(first), int(last) + 1)]
    return found
