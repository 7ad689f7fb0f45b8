"""Several runs in one table: their values of a sweep, and what at least one of them has.

It knows runs; it must not know HTML, nor which of them should be better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from clusterjobs.report.numbers import dollars, duration, integer, loss, number, seconds, share
from clusterjobs.report.page.overview import last_value
from clusterjobs.report.records import Quantity
from clusterjobs.report.run import Run


class Cell(NamedTuple):
    """`width`: of a bar below the text, percent of the largest in the column; "" without one."""

    text: str
    width: str = ""


class SideBySide(NamedTuple):
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


_Column = tuple[str, Callable[[Run], float | None], Callable[[float], str], bool]


def side_by_side(runs: Sequence[Run]) -> SideBySide:
    keys = list(dict.fromkeys(key for run in runs for key in run.point))
    columns = [one for one in _COLUMNS if any(one[1](run) is not None for run in runs)]
    cells = [[Cell(run.point.get(key, "")) for run in runs] for key in keys]
    cells += [_cells(column, runs) for column in columns]
    head = (*keys, *(column[0] for column in columns))
    return SideBySide(head, tuple(zip(*cells, strict=True)) if cells else ((),) * len(runs))


def _cells(column: _Column, runs: Sequence[Run]) -> list[Cell]:
    _, value_of, shown, with_bar = column
    values = [value_of(run) for run in runs]
    largest = max((value for value in values if value is not None), default=0.0)
    return [
        Cell("", "")
        if value is None
        else Cell(
            shown(value), number(100 * value / largest, 3) if with_bar and largest > 0 else ""
        )
        for value in values
    ]


def _rate(quantity: Quantity) -> Callable[[Run], float | None]:
    return lambda run: run.rates[quantity].median if quantity in run.rates else None


def _tokens_per_gpu(run: Run) -> float | None:
    rate = run.rates.get("tokens_per_second")
    return rate.median / run.gpus if rate and run.gpus else None


def _last_loss(run: Run) -> float | None:
    last = last_value(run, "loss")
    return last[1] if last else None


_COLUMNS: tuple[_Column, ...] = (
    ("GPUs", lambda run: run.gpus, integer, False),
    ("Steps", lambda run: run.steps, integer, False),
    ("Tokens/s", _rate("tokens_per_second"), number, True),
    ("per GPU", _tokens_per_gpu, number, False),
    ("Samples/s", _rate("samples_per_second"), number, True),
    ("Time of a step", _rate("seconds"), seconds, False),
    ("MFU", lambda run: run.efficiency.mfu if run.efficiency else None, share, True),
    ("HFU", lambda run: run.efficiency.hfu if run.efficiency else None, share, False),
    ("Goodput", lambda run: run.goodput, share, True),
    ("Last loss", _last_loss, loss, False),
    ("Paid time", lambda run: run.paid_seconds, duration, False),
    ("Cost", lambda run: run.cost.dollars if run.cost else None, dollars, False),
)
