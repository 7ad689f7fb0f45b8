"""result.json, which a point's program writes to $CLUSTERJOBS_RESULT: numbers and texts by name."""

from __future__ import annotations

import itertools
import json
import math
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import one_problem
from clusterjobs.files import open_regular

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


# ------------------------------------------------------------------ results parquet
#
# Writes a table as Parquet, with pyarrow, which clusterjobs does not need otherwise.


_MOST = 2**63  # integers of Parquet have 64 bits


def write_parquet(
    file: pathlib.Path, titles: Sequence[str], rows: Sequence[Sequence[Value]]
) -> None:
    """Raises InputError if pyarrow is missing, or the file cannot be written."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise one_problem(
            "Parquet needs the package pyarrow", hint="pip install pyarrow, or use --csv"
        ) from None
    cells = zip(*rows, strict=True) if rows else ([] for _ in titles)
    arrays = [pyarrow.array(column(one)) for one in cells]
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, list(titles)), file)
    except OSError as error:
        raise one_problem(f"cannot write {file}: {error.strerror or error}") from None


def column(cells: Iterable[Value]) -> list[Any]:
    """The cells in one type: numbers, truth values, or texts for anything else."""
    found = [_plain(cell) for cell in cells]
    kinds = {type(cell) for cell in found if cell is not None}
    small = all(abs(cell) < _MOST for cell in found if type(cell) is int)
    if kinds == {float, int}:
        return [None if cell is None else float(cell) for cell in found]
    if len(kinds) < 2 and small and kinds <= {float, int, bool}:
        return found
    return [None if cell is None else _text(cell) for cell in found]


def _plain(cell: Value) -> Value:
    """Numbers of a spec know how they are written; pyarrow wants Python's own."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return cell
    return int(cell) if isinstance(cell, int) else float(cell)


def _text(cell: Value) -> str:
    """UTF-8 has no half of a pair of surrogates."""
    return str(cell).encode(errors="replace").decode()
