"""The records of a job: attempts.jsonl, whose schema is attempt.py's, and data.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clusterjobs.node.job.attempt import latest_by_attempt, read_records


@dataclass(frozen=True)
class Attempt:
    """One attempt of a job. `seconds` of its script, `ended` in seconds since 1970; None: unknown.

    `reason` is one of `attempt.REASONS`.
    """

    number: int
    reason: str
    checkpoint: str
    exit_code: int | None
    nodes: str
    seconds: int | None
    ended: int | None


@dataclass(frozen=True)
class DataState:
    """The state of a data set: its name `what`, its node ("": all nodes), and the last report.

    `time` in seconds since 1970.
    """

    node: str
    what: str
    said: str
    time: int | None


def read_attempts(text: str) -> tuple[Attempt, ...]:
    """The last record of each attempt of `attempts.jsonl`, in order."""
    return tuple(map(_attempt, latest_by_attempt(read_records(text))))


def read_data(text: str) -> tuple[DataState, ...]:
    """The last state of each data set in `data.jsonl`, in the order of their first lines."""
    found: dict[tuple[str, str], DataState] = {}
    for one in _data_records(text):
        node = str(one.get("node") or "")
        said, time = str(one.get("said", "")), _number(one.get("time"))
        found[one["what"], node] = DataState(node, one["what"], said, time)
    return tuple(found.values())


def _data_records(text: str) -> Iterator[dict[str, Any]]:
    """The lines of data.jsonl, without those that a full disk has truncated."""
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("what"), str):
            yield record


def _attempt(record: dict[str, Any]) -> Attempt:
    return Attempt(
        record["attempt"],
        str(record.get("reason", "")),
        str(record.get("checkpoint") or ""),
        _number(record.get("exit_code")),
        str(record.get("nodes") or ""),
        _number(record.get("seconds")),
        _number(record.get("ended")),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
