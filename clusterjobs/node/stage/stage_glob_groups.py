"""Many names shared out by patterns: parts of about the same weight, each described shortly."""

from __future__ import annotations

import re
from typing import Dict, List

_PIECES = 4  # of each part, so that they can be balanced


def patterns_of(weights: Dict[str, int], parts: int) -> List[List[str]]:
    """At most `parts` lists of glob patterns; a name matches a pattern of one list alone.

    Names are told apart by how they begin: the heaviest group is divided by its next character
    until there are enough to be dealt out.
    """
    groups = {"": sorted(weights)}
    weight = {"": sum(weights.values())}
    whole: Dict[str, int] = {}  # a name that stands for itself, being the beginning of others
    while len(groups) + len(whole) < parts * _PIECES and groups:
        start = max(groups, key=lambda one: (len(groups[one]) > 1, weight[one]))
        names = groups[start]
        if len(names) < 2:
            break
        del groups[start]
        for name in names:
            if name == start:
                whole[name] = weights[name]
                continue
            longer = name[: len(start) + 1]
            groups.setdefault(longer, []).append(name)
            weight[longer] = weight.get(longer, 0) + weights[name]
    pieces = [(weight[start], literal(start) + "*") for start in groups]
    pieces += [(count, literal(name)) for name, count in whole.items()]
    found: List[List[str]] = [[] for _ in range(parts)]
    loads = [0] * parts
    for load, pattern in sorted(pieces, reverse=True):
        lightest = loads.index(min(loads))
        found[lightest].append(pattern)
        loads[lightest] += load
    return [part for part in found if part]


def literal(text: str) -> str:
    """A pattern that only this text matches."""
    return re.sub(r"([*?[])", r"[\1]", text)
