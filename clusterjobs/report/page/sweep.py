"""Drawings of a sweep for the page: the metric over each key, and a line for each point.

The drawings are SVG that is made here, so they need no script; the page's script only dims the
points that its filter leaves out.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterjobs.report.points import Metric, best_point, groups_of, metric_of, state_of
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table, loss, number

_FEWEST = 2  # points
_MOST_KEYS = 8  # that are drawn
_MOST_LABELS = 12  # of an axis
_WIDE = 20  # from the smallest to the largest number: an axis is logarithmic


class Axis:
    """Places of a key's values from 0 to 1: numbers by size, texts one beside the other."""

    def __init__(self, name: str, texts: Sequence[str]) -> None:
        self.name = name
        shown = [text for text in dict.fromkeys(texts) if text]
        numbers = {text: found for text in shown if (found := _number(text)) is not None}
        self._is_log = False
        if len(numbers) < len(shown) or len(shown) < _FEWEST:
            last = max(1, len(shown) - 1)
            self._places = {text: place / last for place, text in enumerate(shown)}
        else:
            low, high = min(numbers.values()), max(numbers.values())
            self._is_log = low > 0 and high / low >= _WIDE
            scale = math.log if self._is_log else float
            width = scale(high) - scale(low) or 1.0
            self._places = {
                text: (scale(value) - scale(low)) / width for text, value in numbers.items()
            }

    def place(self, text: str) -> float | None:
        return self._places.get(text)

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Of many values, some: the first, the last, and between them."""
        found = sorted((place, text) for text, place in self._places.items())
        every = -(-len(found) // _MOST_LABELS)
        return [*found[:-1:every], found[-1]] if found else []


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


class Mark(NamedTuple):
    """A point of a drawing. `kind`: q0, the best quarter, to q3, best, or other.

    `text`: on hovering.
    """

    run: int
    kind: str
    text: str
    x: str
    y: str


class Scatter(NamedTuple):
    """The metric over a key. Places are percent of the drawing, from its upper left corner."""

    name: str
    marks: list[Mark]
    bottom: list[tuple[str, str]]  # place and label
    left: list[tuple[str, str]]


class Parallel(NamedTuple):
    """A line for each point over an axis for each key; the metric is the last axis."""

    axes: list[tuple[str, str, list[tuple[str, str]]]]  # x, name, and labels with their y
    lines: list[Mark]  # `x` has the path


_LEFT, _RIGHT, _TOP, _BOTTOM = 14.0, 96.0, 6.0, 82.0  # of a scatter's frame, in percent
_WIDTH, _HEIGHT, _EDGE = 1000, 320, 60  # of the parallel axes' view box


class Sweep(NamedTuple):
    best: str
    scatters: list[Scatter]
    parallel: Parallel | None
    seeds: Table | None


def sweep_of(runs: Sequence[Run]) -> Sweep | None:
    """The sweep that the runs are points of; None if they are not."""
    keys = list(dict.fromkeys(key for run in runs for key in run.point))
    if not keys or len(runs) < _FEWEST:
        return None
    metric = metric_of(runs)
    texts = {key: [run.point.get(key, "") for run in runs] for key in keys}
    axes = [Axis(key, texts[key]) for key in keys if len(set(texts[key])) > 1][:_MOST_KEYS]
    kinds = _quarters(metric)
    return Sweep(
        best_point(runs),
        [_scatter(axis, texts[axis.name], metric, kinds, runs) for axis in axes] if kinds else [],
        _parallel(axes, texts, metric, kinds, runs) if len(axes) > 1 and kinds else None,
        _seeds(runs, metric),
    )


def _quarters(metric: Metric) -> Mapping[int, str]:
    """Of each run with a metric, in which quarter it is; `other` if it is not compared."""
    known = sorted((value, place) for place, value in enumerate(metric.values) if value is not None)
    ranked = [place for _, place in known if metric.complete[place]]
    quarters = {place: f"q{4 * rank // len(ranked)}" for rank, place in enumerate(ranked)}
    return {place: quarters.get(place, "other") for _, place in known}


def _text(run: Run, metric: Metric, place: int) -> str:
    value = metric.values[place]
    state = "" if metric.complete[place] else f", {state_of(run)}"
    return f"{run.name}: {metric.name} {loss(value) if value is not None else 'unknown'}{state}"


def _metric_axis(metric: Metric) -> Axis:
    return Axis(metric.name, [f"{value:.6g}" for value in metric.values if value is not None])


def _metric_labels(metric: Metric) -> list[tuple[float, str]]:
    known = [value for value in metric.values if value is not None]
    low, high = min(known), max(known)
    ends = [(0.0, low), (0.5, math.sqrt(low * high)), (1.0, high)]
    if not (low > 0 and high / low >= _WIDE):
        ends[1] = 0.5, (low + high) / 2
    return [(place, loss(value)) for place, value in (ends if high > low else ends[:1])]


def _scatter(
    axis: Axis, texts: Sequence[str], metric: Metric, kinds: Mapping[int, str], runs: Sequence[Run]
) -> Scatter:
    by_metric = _metric_axis(metric)
    marks = [
        Mark(
            run,
            "best" if run == metric.best else kind,
            _text(runs[run], metric, run),
            number(_across(x)),
            number(_down(y)),
        )
        for run, kind in kinds.items()
        if (x := axis.place(texts[run])) is not None
        and (y := by_metric.place(f"{metric.values[run]:.6g}")) is not None
    ]
    marks.sort(key=lambda mark: mark.kind == "best")  # in front of the others
    best = "" if metric.best is None else texts[metric.best]
    return Scatter(
        axis.name,
        marks,
        [(number(_across(place)), text) for place, text in _apart(axis.labels, best)],
        [(number(_down(place)), text) for place, text in _metric_labels(metric)],
    )


def _across(place: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * (0.04 + 0.92 * place)


def _down(place: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * (0.04 + 0.92 * place)


def _apart(labels: Sequence[tuple[float, str]], best: str) -> list[tuple[float, str]]:
    """Labels that do not touch each other; the value of the best point comes first."""
    kept: list[tuple[float, str]] = []
    for place, text in sorted(labels, key=lambda label: label[1] != best):
        if all(
            abs(place - other) >= 0.022 * (len(text) + len(label)) / 2 + 0.02
            for other, label in kept
        ):
            kept.append((place, text))
    return sorted(kept)


def _parallel(
    axes: Sequence[Axis],
    texts: Mapping[str, Sequence[str]],
    metric: Metric,
    kinds: Mapping[int, str],
    runs: Sequence[Run],
) -> Parallel:
    by_metric = _metric_axis(metric)
    gap = (_WIDTH - 2 * _EDGE) / len(axes)
    at = [_EDGE + gap * place for place in range(len(axes) + 1)]
    lines = []
    for run, kind in sorted(kinds.items(), key=lambda one: one[1], reverse=True):
        places = [axis.place(texts[axis.name][run]) for axis in axes]
        places.append(by_metric.place(f"{metric.values[run]:.6g}"))
        known = [(x, _height(y)) for x, y in zip(at, places, strict=True) if y is not None]
        path = " ".join(f"{x:.0f},{y:.1f}" for x, y in known)
        name = "best" if run == metric.best else kind
        lines.append(Mark(run, name, _text(runs[run], metric, run), path, ""))
    lines.sort(key=lambda mark: mark.kind == "best")
    labels = [[(f"{_height(y):.1f}", text) for y, text in axis.labels] for axis in axes]
    labels.append([(f"{_height(y):.1f}", text) for y, text in _metric_labels(metric)])
    names = [*(axis.name for axis in axes), metric.name]
    return Parallel(
        [(f"{x:.0f}", name, own) for x, name, own in zip(at, names, labels, strict=True)], lines
    )


def _height(place: float) -> float:
    return _HEIGHT - 20 - (_HEIGHT - 70) * place


def _seeds(runs: Sequence[Run], metric: Metric) -> Table | None:
    rows = []
    for group, places in groups_of(runs).items():
        known = metric.known(places)
        if known:
            mean = statistics.fmean(known)
            spread = statistics.stdev(known) if len(known) > 1 else None
            rows.append((mean, group, len(places), known, spread))
    if not rows:
        return None
    keys = [key for key, _ in rows[0][1]]
    rows.sort(key=lambda one: one[0])
    head = (*keys, "Seeds", f"Mean of {metric.name}", "Standard deviation", "Lowest", "Highest")
    return Table(
        "Over the seeds",
        head,
        tuple(
            (
                *(dict(group).get(key, "") for key in keys),
                f"{len(known)} of {count}" if len(known) < count else str(count),
                loss(mean),
                "" if spread is None else number(spread),
                loss(min(known)),
                loss(max(known)),
            )
            for mean, group, count, known, spread in rows
        ),
    )
