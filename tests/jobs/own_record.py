"""A training's own record of its steps: by its own clock and counts, to check a report against.

Each rank appends a line of JSON per step to a file of its own; `collect` joins the ranks. Trainings
import this from beside their scripts; it needs the standard library alone.

A step's `start` is taken before any of its work, `end` after all of it. What the training prints
after step k is therefore timed between `end` of k and `start` of k + 1, whatever the load is.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any


class OwnRecord:
    """The record of one rank. Nothing is written without the variable OWN_RECORD, a folder."""

    def __init__(self, rank: int) -> None:
        folder = os.environ.get("OWN_RECORD", "")
        self.rank = rank
        self.file = pathlib.Path(folder, f"{rank}-{os.uname().nodename}-{os.getpid()}.jsonl")
        if folder:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        self.is_on = bool(folder)

    @contextlib.contextmanager
    def step(self, number: int, samples: float) -> Iterator[dict[str, Any]]:
        """Around one step of `samples` on this rank; the training may add `loss` and others."""
        more: dict[str, Any] = {}
        start = time.monotonic()
        yield more
        self.add(number, samples, start, time.monotonic(), **more)

    def add(self, number: int, samples: float, start: float, end: float, **more: Any) -> None:
        attempt = int(os.environ.get("CLUSTERJOBS_ATTEMPT", "1"))
        row = {"attempt": attempt, "rank": self.rank, "step": number, "samples": samples}
        row |= {"start": start, "end": end, **more}
        if self.is_on:
            with self.file.open("a", encoding="utf-8") as file:
                print(json.dumps(row), file=file)


def collect(folder: pathlib.Path, printer: int = 0) -> list[dict[str, Any]]:
    """One row per step of each attempt, in order: samples of all ranks, times of the printing one.

    `loss` is the mean over the ranks, weighted with `weight`, which is the samples if the rows do
    not say otherwise; `ranks` says how many have finished the step: fewer than all, if one was
    killed. `start_number` counts the times that the ranks were started. A step that the printing
    rank has not finished is left out.
    """
    steps: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for files in _files_of_ranks(folder):
        for number, rows in enumerate(files, 1):
            for row in rows:
                steps.setdefault((number, row["step"]), []).append(row)
    return [
        _joined(number, rows, printer)
        for (number, _), rows in sorted(steps.items())
        if any(row["rank"] == printer for row in rows)
    ]


def _files_of_ranks(folder: pathlib.Path) -> Iterator[list[list[dict[str, Any]]]]:
    """For each rank the rows of its processes, one after the other."""
    ranks: dict[int, list[list[dict[str, Any]]]] = {}
    for file in folder.glob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        ranks.setdefault(rows[0]["rank"], []).append(rows)
    for files in ranks.values():
        yield sorted(files, key=lambda rows: float(rows[0]["start"]))


def _joined(number: int, rows: list[dict[str, Any]], printer: int) -> dict[str, Any]:
    own = next(row for row in rows if row["rank"] == printer)
    joined = {key: own[key] for key in own if key != "rank"}
    joined = {"attempt": own["attempt"], "start_number": number, **joined}
    joined |= {"samples": sum(row["samples"] for row in rows), "ranks": len(rows)}
    if all("loss" in row for row in rows):
        weights = [row.get("weight", row["samples"]) for row in rows]
        total = sum(row["loss"] * weight for row, weight in zip(rows, weights, strict=True))
        joined |= {"loss": total / sum(weights), "weight": sum(weights)}
    return joined
