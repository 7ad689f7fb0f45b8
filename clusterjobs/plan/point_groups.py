"""Which points of a sweep can share a script, and why the others cannot.

It knows which places of a plan users know by another name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterjobs.plan.join_plans import Difference, joined_plan
from clusterjobs.plan.point_table import PointPlan, columns_of, swept_values

# Path in a plan -> key of the spec; well-known keys first.
_KEYS = {
    "placement.shape.nodes": "nodes",
    "placement.shape.gpus_per_node": "gpus_per_node",
    "placement.shape.ranks_per_node": "ranks_per_node",
    "placement.partition": "queue",
    "job.framework": "framework",
}
# The same for everything below a path.
_SECTIONS = {
    "environment.variables": "env",
    "environment.software_setup": "software.setup",
    "environment.setup": "setup",
    "environment": "software",
    "staging.data": "data",
    "launch": "command",
    "steps.": "",
    "job.": "",
}


def groups_of_points(
    points: tuple[PointPlan, ...], reason: str = ""
) -> Iterator[tuple[tuple[PointPlan, ...], str]]:
    """The points of each script, and the reason for it: "nodes: 4"."""
    differences = joined_plan([one.plan for one in points], columns_of(points)).differences
    if not differences:
        yield points, reason
        return
    keys = [repr([one.values[number] for one in differences]) for number in range(len(points))]
    chosen = _telling(keys, points, differences)
    groups: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    for numbers in groups.values():
        own = ", ".join(_in_words(one, numbers[0]) for one in chosen)
        joined = f"{reason}, {own}" if reason else own
        yield from groups_of_points(tuple(points[number] for number in numbers), joined)


def _telling(
    keys: Sequence[str], points: Sequence[PointPlan], differences: Sequence[Difference]
) -> list[Difference]:
    """The fewest differences that distinguish the groups; well-known keys first."""
    candidates = [
        *(one for path in _KEYS for one in differences if one.path == path),
        *(one for one in differences if one.path.startswith("--")),
        *(Difference(key, values) for key, values in swept_values(points)),
        *differences,
    ]
    chosen: list[Difference] = []
    told = [""] * len(keys)
    for one in candidates:
        texts = list(map(repr, one.values))
        finer = [f"{before};{text}" for before, text in zip(told, texts, strict=True)]
        differs_in_a_group = len(set(zip(keys, texts, strict=True))) > len(set(keys))
        if not differs_in_a_group and len(set(finer)) > len(set(told)):
            told = finer
            chosen.append(one)
    return chosen


def _in_words(difference: Difference, number: int) -> str:
    name, value = _name(difference.path), difference.values[number]
    if isinstance(value, bool) or value is None:
        return f"{name}: {'yes' if value else 'no'}"
    return f"{name}: {' '.join(str(value).split())[:60]}"


def _name(path: str) -> str:
    if path in _KEYS:
        return _KEYS[path]
    section = next((one for one in _SECTIONS if path.startswith(one)), None)
    if section is None or path.startswith("--"):
        return path.replace(".*", "")
    return _SECTIONS[section] or path.removeprefix(section).partition(".")[0]
