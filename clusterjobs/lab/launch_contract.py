"""What a job script promises to its ranks, compared with what the ranks of a lab have written down.

Knows the records of rank_probe.py; it must not start anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Record(NamedTuple):
    """What one rank has written: its variables, None if unset, and whom it met."""

    told: dict[str, str | None]
    host: str
    met: list[int]
    problem: str


def read_records(folder: Path) -> list[Record]:
    """The records of all ranks that ran."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("[!.]*.json"))]
    return [
        Record({name: one[name] for name in _NAMES}, one["host"], one["met"], one["problem"])
        for one in found
    ]


_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def broken_promises(
    records: Sequence[Record], nodes: int, ranks_per_node: int, meets: bool
) -> Iterator[str]:
    """A sentence for each promise that is not kept. `meets`: rank 0 listens for the others."""
    world = nodes * ranks_per_node
    told = sorted(str(one.told["RANK"]) for one in records)
    if told != sorted(map(str, range(world))):
        yield (
            f"RANK must be 0 to {world - 1}, each once; {len(records)} ranks have run, with "
            f"{', '.join(told) or 'none'}"
        )
        return
    ranks = sorted(records, key=lambda one: int(str(one.told["RANK"])))
    wrong = list(_wrong_variables(ranks, ranks_per_node))
    yield from wrong
    for rank, one in enumerate(ranks):
        if one.host != ranks[rank - rank % ranks_per_node].host:
            yield f"rank {rank} runs on another node than rank {rank - rank % ranks_per_node}"
    if not wrong and meets:
        yield from _failed_meetings(ranks)


def _wrong_variables(ranks: Sequence[Record], ranks_per_node: int) -> Iterator[str]:
    first = ranks[0]
    port = first.told["MASTER_PORT"] or "the same for all ranks"
    for name in _NAMES[1:]:
        fixed = {"WORLD_SIZE": str(len(ranks)), "MASTER_ADDR": first.host, "MASTER_PORT": port}
        wanted = [fixed.get(name, str(rank % ranks_per_node)) for rank in range(len(ranks))]
        wrong = [rank for rank, one in enumerate(ranks) if one.told[name] != wanted[rank]]
        if wrong:
            rank, *more = wrong
            others = f"; it is wrong for {len(more)} more" if more else ""
            is_told = ranks[rank].told[name] or "unset"
            yield f"{name} is {is_told} for rank {rank}, and must be {wanted[rank]}{others}"


def _failed_meetings(ranks: Sequence[Record]) -> Iterator[str]:
    for rank, one in enumerate(ranks):
        if one.problem:
            yield f"rank {rank} could not reach rank 0: {one.problem}"
    if ranks[0].met != list(range(1, len(ranks))):
        yield f"rank 0 has met {len(ranks[0].met)} of {len(ranks) - 1} other ranks"
