"""Divide many names into parts of about the same weight, each given by a few glob patterns."""

from __future__ import annotations

import re
from typing import Dict, List

_GROUPS = 4  # per part, so that the parts can be balanced


def patterns_of(weights: Dict[str, int], parts: int) -> List[List[str]]:
    """At most `parts` lists of glob patterns; each name matches the patterns of one list only.

    The names are grouped by prefix: the heaviest group is divided by its next character until there
    are enough groups to distribute.
    """
    groups = {"": sorted(weights)}
    weight = {"": sum(weights.values())}
    whole: Dict[str, int] = {}  # names that are prefixes of others
    while len(groups) + len(whole) < parts * _GROUPS and groups:
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
    """A pattern that matches only this text."""
    return re.sub(r"([*?[])", r"[\1]", text)
