"""result.json, which a point's program writes to $CLUSTERJOBS_RESULT: numbers and texts by name.

It knows the file; it must not know which point it is of.
"""

from __future__ import annotations

import itertools
import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.regular_file import open_regular

RESULT = "result.json"
MOST = 1 << 20  # bytes
MOST_VALUES = 1000  # each is a column of the table

Value = str | int | float | bool | None


class Result(NamedTuple):
    """The values by their keys, nested ones joined by dots; what is wrong with the file, or ""."""

    values: Mapping[str, Value]
    problem: str = ""


def read_result(job: pathlib.Path) -> Result | None:
    """The result in the folder of a job; None if the program wrote none."""
    try:
        with open_regular(job / RESULT) as file:
            data = file.read(MOST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Result({}, f"{RESULT} cannot be read: {error.strerror}")
    if len(data) > MOST:
        return Result({}, f"{RESULT} is larger than {MOST >> 20} MiB")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        return Result({}, f"{RESULT} is no JSON: {str(error) or type(error).__name__}")
    if not isinstance(content, dict):
        return Result({}, f'{RESULT} is no object: write {{"loss": 2.5}}')
    return _flat(content)


def _flat(content: Mapping[str, Any]) -> Result:
    """Lists stay lists, as JSON."""
    values: dict[str, Value] = {}
    problems = []
    leaves = list(itertools.islice(_leaves(content), MOST_VALUES + 1))
    if len(leaves) > MOST_VALUES:
        problems.append(f"{RESULT} has more than {MOST_VALUES:,} values: the first are shown")
    for key, value in leaves[:MOST_VALUES]:
        if key in values:
            problems.append(f"{key} is in {RESULT} twice")
        if isinstance(value, float) and not math.isfinite(value):
            problems.append(f"{key} is {value}")
        values[key] = json.dumps(value) if isinstance(value, list) else value
    return Result(values, "; ".join(problems))


def _leaves(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Without recursion: a file may be nested as deeply as Python reads it."""
    waiting = [("", content)]
    while waiting:
        prefix, found = waiting.pop()
        inner = []
        for key, value in found.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict):
                inner.append((f"{name}.", value))
            else:
                yield name, value
        waiting += reversed(inner)
