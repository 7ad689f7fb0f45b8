"""What a job script wrote down of its attempts: `attempts.jsonl` in the job's folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Attempt:
    """One run of a job. `seconds` of its script, `ended` in seconds since 1970; None: not known.

    `reason`: completed, failure, time_limit, node_failure, bad_node, cancelled or not_started.
    """

    number: int
    reason: str
    checkpoint: str
    exit_code: int | None
    nodes: str
    seconds: int | None
    ended: int | None


def read_attempts(text: str) -> tuple[Attempt, ...]:
    """The last record of each attempt, in order. A line that a full disk cut off is no record."""
    found: dict[int, Attempt] = {}
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("attempt"), int):
            found[record["attempt"]] = _attempt(record)
    return tuple(found[number] for number in sorted(found))


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
