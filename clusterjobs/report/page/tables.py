"""The tables of one run: its attempts, its rates, and where its numbers come from.

It knows a run; it must not know HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from clusterjobs.report.logs.records import Quantity
from clusterjobs.report.page.lost_time import NAMES
from clusterjobs.report.page.overview import last_value
from clusterjobs.report.run import AttemptPart, LostTime, Run
from clusterjobs.report.tables import (
    Table,
    dollars,
    duration,
    integer,
    loss,
    number,
    seconds,
    share,
)

_RATES: dict[Quantity, tuple[str, Callable[[float], str]]] = {
    "tokens_per_second": ("Tokens/s", number),
    "samples_per_second": ("Samples/s", number),
    "seconds": ("Time of a step", seconds),
    "forward_seconds": ("Forward", seconds),
    "backward_seconds": ("Backward", seconds),
    "data_seconds": ("Waiting for data", seconds),
    "printed_tflops_per_gpu": ("TFLOP/s per GPU, as printed", number),
    "printed_mfu": ("MFU, as printed", share),
    "printed_hfu": ("HFU, as printed", share),
}


def attempts_table(run: Run) -> Table | None:
    if len(run.attempts) < 2 and not any(one.seconds for one in run.attempts):
        return None
    head = (
        "Attempt",
        "Ended by",
        "Steps",
        "Resumed from",
        "Kept",
        "Lost",
        "Queue",
        "Time",
        "Most lost to",
    )
    return Table("Attempts", head, tuple(_attempt(one) for one in run.attempts))


def rates_table(run: Run) -> Table | None:
    rows = [
        (
            name,
            shown(rate.median),
            shown(rate.p10),
            shown(rate.p90),
            shown(rate.mean),
            integer(rate.count),
        )
        for quantity, (name, shown) in _RATES.items()
        if (rate := run.rates.get(quantity))
    ]
    notes = tuple(_about_rates(run))
    if not rows:
        return Table("Rates", notes=notes) if notes else None
    head = ("Steady state", "Median", "10 % point", "90 % point", "Mean", "Lines of the log")
    return Table("Rates", head, tuple(rows), notes)


def sources_table(run: Run) -> Table | None:
    """How numbers were calculated that the log does not print."""
    rows = [(name.replace("_", " "), how) for name, how in run.derived.items()]
    if run.efficiency:
        rows.append(("FLOP per GPU", run.efficiency.formula))
    return Table("Calculated", ("What", "From"), tuple(rows)) if rows else None


def _attempt(one: AttemptPart) -> tuple[str, ...]:
    steps = ""
    if one.first_step is not None and one.last_step is not None:
        steps = f"{integer(one.first_step)} to {integer(one.last_step)}"
    return (
        str(one.number),
        one.reason,
        steps,
        "" if one.resumed_step is None else integer(one.resumed_step),
        integer(one.kept_steps),
        integer(one.lost_steps),
        "" if one.queue_seconds is None else duration(one.queue_seconds),
        "" if one.seconds is None else duration(one.seconds),
        _most_lost(one.lost_seconds),
    )


def _most_lost(lost: dict[LostTime, float]) -> str:
    paid = {part: time for part, time in lost.items() if part != "queue" and time > 0}
    if not paid:
        return ""
    part = max(paid, key=lambda one: paid[one])
    return f"{NAMES[part][0].lower()}, {duration(paid[part])}"


def _about_rates(run: Run) -> Iterator[str]:
    if run.steady_from is not None:
        yield f"The steady state begins at step {integer(run.steady_from)}; warm-up is left out."
    if run.mean_samples_per_second is not None:
        yield f"Mean of all steps: {number(run.mean_samples_per_second)} samples/s."
    if run.peak_memory_gib is not None:
        yield f"Peak memory of the GPU that prints it: {number(run.peak_memory_gib)} GiB."


# ------------------------------------------------------------------ side by side
#
# Several runs in one table: their values of a sweep, and what at least one of them has.


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
