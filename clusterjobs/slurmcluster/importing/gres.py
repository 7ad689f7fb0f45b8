"""Reads the GPUs in Slurm's generic resources: `gpu:a100:8(S:0-1)`. It knows that form alone."""

from __future__ import annotations

import re
from typing import NamedTuple


class Gpus(NamedTuple):
    """GPUs of one type in a node; the type is "" where Slurm has none."""

    type: str
    number: int

    @property
    def is_part(self) -> bool:
        """A part of a GPU: NVIDIA's MIG, which AutoDetect names `nvidia_a100_3g.20gb`."""
        return bool(_MIG.search(self.type))


_MIG = re.compile(r"\d+g\.\d+gb")
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_COUNT = re.compile(r"(\d{1,6})([kK]?)", re.ASCII)


def gpus_of(gres: str) -> tuple[Gpus, ...]:
    """The GPUs of a node, whole ones first. Raises ValueError for a count that is no number."""
    found: dict[str, int] = {}
    for one in _IN_BRACKETS.sub("", gres).split(","):
        name, *rest = one.strip().split(":")
        if name != "gpu":
            continue
        rest = [part for part in rest if part != "no_consume"]
        count = 1
        if rest and (match := _COUNT.fullmatch(rest[-1])):
            count = int(match[1]) * (1024 if match[2] else 1)
            rest.pop()
        kind = ":".join(rest)
        if "[" in kind or len(rest) > 1:
            raise ValueError(f"{one.strip()[:60]} is no GRES of GPUs")
        found[kind] = found.get(kind, 0) + count
    gpus = [Gpus(kind, count) for kind, count in found.items() if count]
    return tuple(sorted(gpus, key=lambda one: (one.is_part, -one.number)))
