"""Writes a table as Parquet, with pyarrow, which clusterjobs does not need otherwise."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from clusterjobs.errors import one_problem
from clusterjobs.jobs.results import Value

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
