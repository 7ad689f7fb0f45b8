"""The tables of the page: of one run, of several side by side, and of what a plot shows."""

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from clusterjobs.errors import counted
from clusterjobs.report.logs.records import Quantity
from clusterjobs.report.page.curves import Plot, Point
from clusterjobs.report.page.overview import NAMES
from clusterjobs.report.points import last_value
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
        *("Attempt", "Ended by", "Steps", "Resumed from", "Kept", "Lost", "Queue", "Time"),
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
    notes = []
    if run.steady_from is not None:
        begin = integer(run.steady_from)
        notes.append(f"The steady state begins at step {begin}; warm-up is left out.")
    if run.mean_samples_per_second is not None:
        notes.append(f"Mean of all steps: {number(run.mean_samples_per_second)} samples/s.")
    if run.peak_memory_gib is not None:
        notes.append(f"Peak memory of the GPU that prints it: {number(run.peak_memory_gib)} GiB.")
    if not rows:
        return Table("Rates", notes=tuple(notes)) if notes else None
    head = ("Steady state", "Median", "10 % point", "90 % point", "Mean", "Lines of the log")
    return Table("Rates", head, tuple(rows), tuple(notes))


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


class Cell(NamedTuple):
    """`width`: of a bar below the text, percent of the largest in the column; "" without one.

    `value`: the number, by which the page's script sorts.
    """

    text: str
    width: str = ""
    value: str = ""


class SideBySide(NamedTuple):
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


_Column = tuple[str, Callable[[Run], float | None], Callable[[float], str], bool]


def side_by_side(runs: Sequence[Run]) -> SideBySide:
    """Several runs in one table: their values of a sweep, and what at least one of them has."""
    keys = list(dict.fromkeys(key for run in runs for key in run.point))
    columns = [one for one in _COLUMNS if any(one[1](run) is not None for run in runs)]
    if keys:  # of a sweep: the losses first, and nothing that is the same in all points
        columns = [one for one in columns if len({one[1](run) for run in runs}) > 1]
        columns.sort(key=lambda one: not one[0].endswith("loss"))
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
            shown(value),
            number(100 * value / largest, 3) if with_bar and largest > 0 else "",
            f"{value:.8g}",
        )
        for value in values
    ]


def _rate(quantity: Quantity) -> Callable[[Run], float | None]:
    return lambda run: run.rates[quantity].median if quantity in run.rates else None


def _tokens_per_gpu(run: Run) -> float | None:
    rate = run.rates.get("tokens_per_second")
    return rate.median / run.gpus if rate and run.gpus else None


def _last(quantity: Quantity) -> Callable[[Run], float | None]:
    def value_of(run: Run) -> float | None:
        last = last_value(run, quantity)
        return last[1] if last else None

    return value_of


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
    ("Last loss", _last("loss"), loss, False),
    ("Validation loss", _last("validation_loss"), loss, False),
    ("Paid time", lambda run: run.paid_seconds, duration, False),
    ("Cost", lambda run: run.cost.dollars if run.cost else None, dollars, False),
)


# What a plot shows, in a sentence and in a table: for those who cannot see it, and for paper.

_ROWS = 40
_FEWEST_ROWS = 10
_CELLS = 240
_MEDIAN_SAYS_MOST = {"tokens_per_second", "samples_per_second", "seconds", "grad_norm"}


def sentence(plot: Plot) -> str:
    """The course of the first curve, or the last values of several runs."""
    if plot.of_one_run:
        return _course(plot, plot.curves[0].points)
    last = sorted(
        (numbers[-1], curve.name)
        for curve in plot.curves
        if (numbers := [value for _, value in curve.points if value is not None])
    )
    if not last:
        return _without_number(plot.curves[0].points)
    low, high = last[0], last[-1]
    if len(last) == 1:
        return f"Last value {plot.text(low[0])} ({low[1]})."
    text = f"{counted(len(last), 'run')}. Last values: lowest {plot.text(low[0])} ({low[1]})"
    return f"{text}, highest {plot.text(high[0])} ({high[1]})."


def values_table(plot: Plot) -> Table:
    """Each value if they are few, else the median of ranges of steps; of one curve, extremes."""
    steps = sorted({step for curve in plot.curves for step, _ in curve.points})
    most = max(_FEWEST_ROWS, min(_ROWS, _CELLS // len(plot.curves)))
    names = [
        curve.name[:1].upper() + curve.name[1:] if plot.of_one_run else curve.name
        for curve in plot.curves
    ]
    rows: list[tuple[str, ...]] = []
    if len(steps) <= most:
        values = [
            {step: "not a number" if value is None else plot.text(value) for step, value in one}
            for one in (curve.points for curve in plot.curves)
        ]
        rows = [(integer(step), *(one.get(step, "") for one in values)) for step in steps]
        return Table(plot.title, ("Step", *names), tuple(rows))
    medians = [f"{name}, median" for name in names]
    head = ("Steps", *(["Lowest", "Median", "Highest"] if len(names) == 1 else medians))
    width = -(-(steps[-1] - steps[0] + 1) // most)
    for start in range(steps[0], steps[-1] + 1, width):
        end = min(steps[-1], start + width - 1)
        groups = [_within(curve.points, start, end) for curve in plot.curves]
        if any(groups):
            row = (cell for group in groups for cell in _group_cells(plot, group))
            rows.append((f"{integer(start)} to {integer(end)}", *row))
    return Table(plot.title, head, tuple(rows))


def _course(plot: Plot, points: Sequence[Point]) -> str:
    numbers = [(value, step) for step, value in points if value is not None]
    if not numbers:
        return _without_number(points)
    first, last, low, high = numbers[0], numbers[-1], min(numbers), max(numbers)
    if first[1] == last[1]:
        return f"{_at(plot, first)}. {_without_number(points)}".rstrip()
    if plot.text(low[0]) == plot.text(high[0]):
        steps = f"from step {integer(first[1])} to {integer(last[1])}"
        return f"Always {plot.text(last[0])}, {steps}. {_without_number(points)}".rstrip()
    if plot.quantity in _MEDIAN_SAYS_MOST:
        parts = [f"Median {plot.text(statistics.median(value for value, _ in numbers))}"]
        said = set()
    else:
        parts = [f"From {_at(plot, first)} to {_at(plot, last)}"]
        said = {plot.text(first[0]), plot.text(last[0])}
    for name, found in (("lowest", low), ("highest", high)):
        if plot.text(found[0]) not in said:
            parts.append(f"{name} {_at(plot, found)}")
    return f"{', '.join(parts)}. {_without_number(points)}".rstrip()


def _at(plot: Plot, found: tuple[float, int]) -> str:
    return f"{plot.text(found[0])} at step {integer(found[1])}"


def _without_number(points: Sequence[Point]) -> str:
    missing = [step for step, value in points if value is None]
    if not missing:
        return ""
    where = f"first at step {integer(missing[0])}"
    return f"Not a number in {counted(len(missing), 'line')}, {where}."


def _within(points: Sequence[Point], start: int, end: int) -> Sequence[Point]:
    first = bisect_left(points, start, key=lambda point: point.step)
    return points[first : bisect_right(points, end, key=lambda point: point.step)]


def _group_cells(plot: Plot, points: Sequence[Point]) -> tuple[str, ...]:
    alone = len(plot.curves) == 1
    if not points:
        return ("",) * (3 if alone else 1)
    numbers = [value for _, value in points if value is not None]
    if not numbers:
        return ("not a number",) * (3 if alone else 1)
    found = (min(numbers), statistics.median(numbers), max(numbers))
    return tuple(plot.text(value) for value in (found if alone else found[1:2]))
