"""Which plots a page has, with the curves of each.

It knows runs and quantities; it must not know HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from clusterjobs.report.logs.records import Quantity
from clusterjobs.report.page.points import Point, points_of, thin, with_gaps
from clusterjobs.report.run import Run
from clusterjobs.report.tables import loss, number, seconds, visible

MOST_RUNS = 24  # of one plot: more curves cannot be told apart
_FEW_MARKS = 60

Style = Literal["line", "thin", "dots"]


class Curve(NamedTuple):
    """`colour`: which of the page's; curves of one run, or of one kind, have the same."""

    name: str
    colour: int
    points: Sequence[Point]
    style: Style = "line"


class Mark(NamedTuple):
    """A vertical line at a step."""

    step: int
    label: str


class Plot(NamedTuple):
    """`unit`: of the axis. `logarithmic`: how it is drawn at first, which needs `positive` values.

    `of_one_run`: its curves are kinds of values, and not runs.
    """

    quantity: Quantity
    title: str
    unit: str
    curves: tuple[Curve, ...]
    of_one_run: bool
    positive: bool
    logarithmic: bool
    marks: tuple[Mark, ...] = ()

    def text(self, value: float) -> str:
        if self.quantity == "loss":
            return loss(value)
        return seconds(value) if self.unit == "s" else f"{number(value)} {self.unit}".rstrip()


class _Kind(NamedTuple):
    quantity: Quantity
    title: str
    unit: str
    beside: tuple[tuple[str, Quantity, Style], ...] = ()  # further curves, if it is one run
    repeated: bool = False
    short: str = ""  # name of the curve


_KINDS = (
    _Kind("loss", "Loss", "", (("validation", "validation_loss", "dots"),), repeated=True),
    _Kind("tokens_per_second", "Throughput", "tokens/s"),
    _Kind("samples_per_second", "Throughput", "samples/s"),
    _Kind(
        *("seconds", "Time of a step", "s"),
        (
            ("forward", "forward_seconds", "line"),
            ("backward", "backward_seconds", "line"),
            ("waiting for data", "data_seconds", "line"),
        ),
        short="step",
    ),
    _Kind("learning_rate", "Learning rate", ""),
    _Kind("grad_norm", "Gradient norm", ""),
    _Kind("memory_gib", "Memory of a GPU", "GiB"),
    _Kind("loss_scale", "Loss scale", ""),
)


def plots_of(runs: Sequence[Run]) -> list[Plot]:
    """The plots for which the logs have at least two values; one rate is enough."""
    shown = runs[:MOST_RUNS]
    plots = [plot for kind in _KINDS if (plot := _plot(kind, shown))]
    rates = [plot for plot in plots if plot.title == "Throughput"]
    fewer = min(rates, key=lambda plot: len(plot.curves)) if len(rates) > 1 else None
    if fewer and len({len(plot.curves) for plot in rates}) == 1:
        fewer = rates[1]  # tokens/s are comparable between models
    return [plot for plot in plots if plot is not fewer]


def _plot(kind: _Kind, runs: Sequence[Run]) -> Plot | None:
    curves = [
        Curve(run.name, index, found)
        for index, run in enumerate(runs)
        if (found := points_of(run.windows, kind.quantity))
    ]
    marks: tuple[Mark, ...] = ()
    if len(runs) == 1:
        curves = [curve._replace(name=kind.short or kind.title.lower()) for curve in curves]
        curves += _beside(kind, runs[0], bool(curves))
        marks = _marks(runs[0])
    values = [value for curve in curves for _, value in curve.points if value is not None]
    is_flat = kind.quantity == "loss_scale" and len(set(values)) == 1
    if not values or is_flat or all(len(curve.points) < 2 for curve in curves):
        return None
    positive = min(values) > 0
    return Plot(
        kind.quantity,
        kind.title,
        kind.unit,
        tuple(curves),
        of_one_run=len(runs) == 1,
        positive=positive,
        logarithmic=positive and _is_wide(values),
        marks=marks,
    )


def _beside(kind: _Kind, run: Run, has_main: bool) -> list[Curve]:
    curves = [
        Curve(name, index, found, style)
        for index, (name, quantity, style) in enumerate(kind.beside, start=1)
        if (found := points_of(run.windows, quantity))
        and (has_main or quantity == "validation_loss")
    ]
    if kind.repeated and (found := with_gaps(run.replaced, kind.quantity)):
        curves.append(Curve("repeated later", 0, found, "thin"))
    return curves


def _marks(run: Run) -> tuple[Mark, ...]:
    marks = [
        Mark(attempt.first_step, str(attempt.number))
        for attempt in run.attempts[1:]
        if attempt.first_step is not None
    ]
    return tuple(marks) if len(marks) <= _FEW_MARKS else ()


def _is_wide(values: Iterable[float]) -> bool:
    """Whether a few high values would press the others flat on a linear axis."""
    ordered = sorted(values)
    return ordered[-1] > 10 * ordered[len(ordered) // 2]


# ------------------------------------------------------------------ plot data
#
# The curves as JSON, for the script of the page: small, and inert inside HTML.


_MOST_POINTS = 2_000  # of one curve: about one for each pixel of a wide screen
_FEWEST_POINTS = 60
_ALL_POINTS = 36_000  # of the page, which must stay below 1 MB


def plot_data(plots: Sequence[Plot], runs: int) -> str:
    """JSON without a character that means something in HTML."""
    curves = sum(len(plot.curves) for plot in plots)
    limit = max(_FEWEST_POINTS, min(_MOST_POINTS, _ALL_POINTS // max(1, curves)))
    data = {"runs": runs, "plots": [_plot_json(plot, limit) for plot in plots]}
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _plot_json(plot: Plot, limit: int) -> dict[str, Any]:
    return {
        "id": plot.quantity,
        "unit": plot.unit,
        "log": plot.logarithmic,
        "marks": [list(mark) for mark in plot.marks],
        "curves": [
            {
                "name": visible(curve.name),
                "colour": curve.colour,
                "style": curve.style,
                "x": thinned.steps,
                "y": [_short(value) for value in thinned.values],
                "low": [_short(value) for value in thinned.low],
                "high": [_short(value) for value in thinned.high],
            }
            for curve in plot.curves
            for thinned in [thin(curve.points, limit)]
        ],
    }


def _short(value: float | None) -> float | int | None:
    """Five digits, which no screen can show more of."""
    if value is None:
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
