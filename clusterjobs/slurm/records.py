"""What a job wrote down of its attempts and of its data, in files of its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Attempt:
    """One run of a job. `seconds` of its script, `ended` in seconds since 1970; None: not known.

    `reason`: completed, failure, after_failure, time_limit, node_failure, bad_node, cancelled or
    not_started.
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
    """How a data set stands: `what` it is, on which node ("": for all), and what was said last.

    `time` in seconds since 1970.
    """

    node: str
    what: str
    said: str
    time: int | None


def read_attempts(text: str) -> tuple[Attempt, ...]:
    """The last record of each attempt of `attempts.jsonl`, in order."""
    found = {one["attempt"]: _attempt(one) for one in _records(text, "attempt", int)}
    return tuple(found[number] for number in sorted(found))


def read_data(text: str) -> tuple[DataState, ...]:
    """What `data.jsonl` says last of each data set, in the order in which they were first named."""
    found: dict[tuple[str, str], DataState] = {}
    for one in _records(text, "what", str):
        node = str(one.get("node") or "")
        said, time = str(one.get("said", "")), _number(one.get("time"))
        found[one["what"], node] = DataState(node, one["what"], said, time)
    return tuple(found.values())


def _records(text: str, key: str, kind: type) -> Iterator[dict[str, Any]]:
    """A line that a full disk cut off is no record."""
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get(key), kind):
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
