"""A table as every output shows it: texts in rows, with a title and sentences below.

It knows neither runs nor how a terminal or a page looks.
"""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    """`notes`: sentences below the table; a table without rows has only these."""

    title: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
