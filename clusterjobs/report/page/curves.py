"""Which plots a page has, with the curves of each and their points, thinned for drawing."""

import bisect
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from clusterjobs.report.logs.records import Quantity, Window
from clusterjobs.report.run import Run
from clusterjobs.report.tables import loss, number, seconds, visible

_OFTEN = 0.9  # of the windows have a time
_LARGEST = 1e300  # the difference of two of them is still a number
_LARGEST_STEP = 2**53  # of the whole numbers that JavaScript has


class Point(NamedTuple):
    """`value` is None where the log has no number (NaN or infinite), or where a curve has a gap."""

    step: int
    value: float | None


def points_of(windows: Iterable[Window], quantity: Quantity) -> list[Point]:
    """The points in the order of their steps; merged windows also give their extremes.

    Of two windows of one step the later counts.
    """
    found: dict[int, float | None] = {}
    for window in windows:
        if quantity not in window.values or not 0 <= window.step <= _LARGEST_STEP:
            continue
        if window.lines and quantity in window.low and quantity in window.high:
            third = (window.steps or 3) // 3
            found[max(0, window.step - 2 * third)] = _finite(window.low[quantity])
            found[max(0, window.step - third)] = _finite(window.high[quantity])
        found[window.step] = _finite(window.values[quantity])
    return [Point(step, found[step]) for step in sorted(found)]


def with_gaps(windows: Sequence[Window], quantity: Quantity) -> list[Point]:
    """Points of windows that are not one sequence: a gap wherever the step falls back."""
    found = {point.step: point for point in points_of(windows, quantity)}
    for before, after in itertools.pairwise(windows):
        gap = before.step + 1
        if after.step <= before.step and gap not in found:
            found[gap] = Point(gap, None)
    return [found[step] for step in sorted(found)]


Band = Mapping[int, tuple[float | None, float | None]]  # step -> lowest and highest


def band_of(windows: Iterable[Window], quantity: Quantity) -> Band:
    """Of windows that stand for several runs: between which values these are."""
    return {
        one.step: (_finite(one.low[quantity]), _finite(one.high[quantity]))
        for one in windows
        if not one.lines and quantity in one.low
    }


def hours_of(windows: Sequence[Window], steps: Sequence[int]) -> list[float]:
    """Hours since the first window at each step; empty if the log has no times."""
    shown = [one for one in windows if "time" in one.values]
    if len(shown) == len(windows) > 1:
        start = shown[0].values["time"]
        times = [(one.step, (one.values["time"] - start) / 3600) for one in shown]
    else:
        timed = [(one.step, one.values.get("seconds", 0.0) * (one.steps or 0)) for one in windows]
        if sum(seconds > 0 for _, seconds in timed) < max(2, _OFTEN * len(timed)):
            return []
        total = itertools.accumulate(seconds / 3600 for _, seconds in timed)
        times = [(step, hours) for (step, _), hours in zip(timed, total, strict=True)]
    places = [step for step, _ in times]
    at = (bisect.bisect_right(places, step) - 1 for step in steps)
    return [float(f"{times[max(0, place)][1]:.5g}") for place in at]


class Thinned(NamedTuple):
    """Of each bucket the middle step, median and extremes; no extremes if all points fit."""

    steps: list[int]
    values: list[float | None]
    low: list[float | None]
    high: list[float | None]


def thin(points: Sequence[Point], limit: int, band: Band = MappingProxyType({})) -> Thinned:
    """At most `limit` extremes. A bucket in which most values are no numbers is a gap."""
    if len(points) <= limit:
        both = [band.get(one.step, (None, None)) for one in points] if band else []
        return Thinned(
            [one.step for one in points],
            [one.value for one in points],
            [low for low, _ in both],
            [high for _, high in both],
        )
    buckets = max(1, limit // 2)
    found = Thinned([], [], [], [])
    for place in range(buckets):
        start, end = (len(points) * side // buckets for side in (place, place + 1))
        bucket = points[start:end]
        numbers = sorted(value for _, value in bucket if value is not None)
        edges = [edge for one in bucket for edge in band.get(one.step, ()) if edge is not None]
        is_gap = 2 * len(numbers) < len(bucket)
        found.steps.append(bucket[len(bucket) // 2].step)
        found.values.append(None if is_gap else numbers[len(numbers) // 2])
        found.low.append(min(edges or numbers, default=None))
        found.high.append(max(edges or numbers, default=None))
    found.steps[0], found.steps[-1] = points[0].step, points[-1].step  # the whole width of the plot
    return found


def _finite(value: float) -> float | None:
    return value if abs(value) < _LARGEST else None


MOST_RUNS = 24  # of one plot: more curves cannot be told apart
_FEW_MARKS = 60

Style = Literal["line", "thin", "dots"]


class Curve(NamedTuple):
    """`colour`: which of the page's; curves of one run, or of one kind, have the same."""

    name: str
    colour: int
    points: Sequence[Point]
    style: Style = "line"
    band: Band = MappingProxyType({})
    windows: Sequence[Window] = ()  # for the axis of hours


class Mark(NamedTuple):
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
    _Kind("gpu_percent", "Use of a GPU", "%"),
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
        Curve(run.name, index, found, band=band_of(run.windows, kind.quantity), windows=run.windows)
        for index, run in enumerate(runs)
        if (found := points_of(run.windows, kind.quantity))
    ]
    marks: tuple[Mark, ...] = ()
    if len(runs) == 1:
        curves = [curve._replace(name=kind.short or kind.title.lower()) for curve in curves]
        curves += _beside(kind, runs[0], bool(curves))
        marks = tuple(
            Mark(attempt.first_step, str(attempt.number))
            for attempt in runs[0].attempts[1:]
            if attempt.first_step is not None
        )
    values = [value for curve in curves for _, value in curve.points if value is not None]
    is_flat = kind.quantity == "loss_scale" and len(set(values)) == 1
    if not values or is_flat or all(len(curve.points) < 2 for curve in curves):
        return None
    positive = min(values) > 0
    is_wide = max(values) > 10 * sorted(values)[len(values) // 2]  # on a linear axis, most are flat
    return Plot(
        kind.quantity,
        kind.title,
        kind.unit,
        tuple(curves),
        of_one_run=len(runs) == 1,
        positive=positive,
        logarithmic=positive and is_wide,
        marks=marks if len(marks) <= _FEW_MARKS else (),
    )


def _beside(kind: _Kind, run: Run, has_main: bool) -> list[Curve]:
    curves = [
        Curve(name, index, found, style, windows=run.windows)
        for index, (name, quantity, style) in enumerate(kind.beside, start=1)
        if (found := points_of(run.windows, quantity))
        and (has_main or quantity == "validation_loss")
    ]
    if kind.repeated and (found := with_gaps(run.replaced, kind.quantity)):
        curves.append(Curve("repeated later", 0, found, "thin"))
    return curves


_MOST_POINTS = 2_000  # of one curve: about one for each pixel of a wide screen
_FEWEST_POINTS = 60
_ALL_POINTS = 24_000  # of the page, which must stay below 1 MB


def plot_data(
    plots: Sequence[Plot], runs: int, settings: Mapping[str, Sequence[str]] | None = None
) -> str:
    """The curves for the script of the page: JSON without a character that acts in HTML.

    `settings`: the values of all rows of the table of runs, by key. Of a curve, `x` and `hours` are
    places in the list `places`: many curves have the same.
    """
    count = sum(2 if curve.band else 1 for plot in plots for curve in plot.curves)
    limit = max(_FEWEST_POINTS, min(_MOST_POINTS, _ALL_POINTS // max(1, count)))
    places: dict[tuple[float, ...], int] = {}
    data = {
        "runs": runs,
        "plots": [
            {
                "id": plot.quantity,
                "unit": plot.unit,
                "log": plot.logarithmic,
                "marks": [list(mark) for mark in plot.marks],
                "curves": [
                    {
                        "name": visible(curve.name),
                        "colour": curve.colour,
                        "style": curve.style,
                        "x": places.setdefault(tuple(thinned.steps), len(places)),
                        "hours": places.setdefault(
                            tuple(hours_of(curve.windows, thinned.steps)), len(places)
                        ),
                        "y": [_short(value) for value in thinned.values],
                        "low": [_short(value) for value in thinned.low],
                        "high": [_short(value) for value in thinned.high],
                    }
                    for curve in plot.curves
                    for thinned in [thin(curve.points, limit, curve.band)]
                ],
            }
            for plot in plots
        ],
        "places": [list(one) for one in places],
        "settings": {
            visible(key): [visible(value) for value in values]
            for key, values in (settings or {}).items()
        },
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _short(value: float | None) -> float | int | None:
    """Five digits, which no screen can show more of."""
    if value is None:
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
