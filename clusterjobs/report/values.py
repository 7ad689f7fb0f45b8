"""Completes windows: what the log does not print is calculated from what it prints.

Batch and time of a step are trusted more than a printed rate, which may be of one rank, of one
batch, or in another unit.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.models.records import Gpu, Layout, ModelShape, hardware_flops, model_flops
from clusterjobs.report.logs.records import Quantity, Window
from clusterjobs.report.run import Efficiency, Job, Spread

_APART = 0.02  # of a printed and a calculated rate
_OF_THE_JOB: dict[Quantity, Quantity] = {
    "tokens_per_second_per_gpu": "tokens_per_second",
    "samples_per_second_per_gpu": "samples_per_second",
}


class Completed(NamedTuple):
    """`derived`: quantity -> how it was calculated. `notes`: sentences for the reader."""

    windows: tuple[Window, ...]
    derived: dict[Quantity, str]
    notes: tuple[str, ...]


def complete(windows: Sequence[Window], job: Job) -> Completed:
    """The windows of one attempt with time of a step, samples/s and tokens/s where possible."""
    derived: dict[Quantity, str] = {}
    done: list[Window] = []
    apart = 0
    windows = _without_growing(windows)
    by_clock = _by_clock(windows)
    by_line = _by_line(windows, by_clock)
    for place, window in enumerate(windows):
        values = dict(window.values)
        batch = values.get("batch") or job.batch
        sequence = values.get("sequence") or job.sequence
        if job.gpus:
            for name in _OF_THE_JOB.keys() & values.keys():
                values.setdefault(_OF_THE_JOB[name], values[name] * job.gpus)
        _add_seconds(values, derived, batch, sequence)
        if place in by_line and not values.get("seconds"):
            values["seconds"] = by_line[place]
        if place in by_clock and not values.get("seconds"):
            values["seconds"] = by_clock[place]
            derived["seconds"] = "difference of the times that the log prints"
        seconds, printed = values.get("seconds"), values.get("samples_per_second")
        if seconds and batch:
            rate = batch / seconds
            apart += bool(printed and abs(printed - rate) > _APART * rate)
            if not printed or abs(printed - rate) > _APART * rate:
                values["samples_per_second"] = rate
                derived["samples_per_second"] = "batch / time of a step"
        rate = values.get("samples_per_second", 0.0)
        if rate and sequence and "tokens_per_second" not in values:
            values["tokens_per_second"] = rate * sequence
            derived["tokens_per_second"] = "samples/s x sequence"
        done.append(window.with_values(values))
    notes = []
    if not by_line and any("line_seconds" in one.values for one in windows):
        notes.append(
            "The times in the lines may be of a step, or of all steps since the line before: they "
            "are not used."
        )
    if apart:
        notes.append(
            f"The printed samples/s differ from batch / time of a step by more than "
            f"{_APART:.0%} in {apart} of {len(done)} lines; batch / time is used."
        )
    return Completed(tuple(done), derived, tuple(notes))


def _add_seconds(
    values: dict[Quantity, float],
    derived: dict[Quantity, str],
    batch: float | None,
    sequence: float | None,
) -> None:
    """The time of a step, from a rate that the log prints."""
    if values.get("seconds"):
        return
    if batch and values.get("samples_per_second"):
        values["seconds"] = batch / values["samples_per_second"]
        derived["seconds"] = "batch / samples per second"
    elif batch and sequence and values.get("tokens_per_second"):
        values["seconds"] = batch * sequence / values["tokens_per_second"]
        derived["seconds"] = "tokens of a step / tokens per second"


_CLOCKS: tuple[Quantity, ...] = ("elapsed", "time")  # the first one if both are in all lines
_TICKS = 25  # of whole seconds: fewer are off by more than 4 %
_LEAST_TIME = 1e-9
_NEAR_CLOCK = 0.25  # a step may wait between two lines


_OFTEN = 0.9  # of the lines
_MUCH = 3  # times the first


def _without_growing(windows: Sequence[Window]) -> Sequence[Window]:
    """The windows whose time of a step is one: a time that grows with the steps is a clock.

    It may start again, as in each epoch.
    """
    shown = [one.values["seconds"] for one in windows if "seconds" in one.values]
    grown = [after / one for one, after in itertools.pairwise(shown) if 0 < one < after]
    if len(shown) < 2 * FEWEST or len(grown) < _OFTEN * (len(shown) - 1):
        return windows
    if max(shown) < _MUCH * min(shown):
        return windows
    found = []
    for one in windows:
        values = dict(one.values)
        if "seconds" in values:
            values.setdefault("elapsed", values.pop("seconds"))
        found.append(one.with_values(values))
    return found


def _by_clock(windows: Sequence[Window]) -> dict[int, float]:
    """The time of a step in each window, by place, from clocks in the lines of an attempt.

    A clock that shows whole seconds is read where enough of them have passed: the steps in between
    have their mean.
    """
    found: dict[int, float] = {}
    shown = [
        [(place, one.values[clock]) for place, one in enumerate(windows) if clock in one.values]
        for clock in _CLOCKS
    ]
    times = max(shown, key=len)
    # A time beyond those before and behind it is damaged.
    times = [
        one
        for before, one, behind in zip([None, *times], times, [*times[1:], None], strict=False)
        if not (before and behind and before[1] <= behind[1] < one[1])
    ]
    (start, since), *rest = times or [(0, 0.0)]
    for place, now in rest:
        passed = now - since
        is_whole = now.is_integer() and since.is_integer()
        if 0 <= passed < (_TICKS if is_whole else _LEAST_TIME):
            continue
        inside = range(start + 1, place + 1)
        steps = sum(windows[one].steps or 0 for one in inside)
        if 0 < passed < math.inf and steps:
            found |= dict.fromkeys(inside, passed / steps)
        start, since = place, now
    return found


def _by_line(windows: Sequence[Window], by_clock: Mapping[int, float]) -> dict[int, float]:
    """The time of a step in each window, by place, from times that do not say of what they are.

    Times that only grow are since the start. Of others, the clock says whether they are of a step
    or of all since the line before; in a log with a line for each step, that is the same.
    """
    shown = [
        (place, one.values["line_seconds"], one.steps or 1)
        for place, one in enumerate(windows)
        if "line_seconds" in one.values
    ]
    if len(shown) >= FEWEST and all(one[1] < other[1] for one, other in itertools.pairwise(shown)):
        return {
            place: (now - before) / steps
            for (_, before, _), (place, now, steps) in itertools.pairwise(shown)
        }
    by_step = {place: seconds for place, seconds, _ in shown}
    by_lines = {place: seconds / steps for place, seconds, steps in shown}
    if all(steps == 1 for _, _, steps in shown):
        return by_step
    return next((one for one in (by_step, by_lines) if _agree(one, by_clock)), {})


def _agree(times: Mapping[int, float], clock: Mapping[int, float]) -> bool:
    ratios = [times[place] / clock[place] for place in times.keys() & clock.keys()]
    return bool(ratios) and abs(statistics.median(ratios) - 1) <= _NEAR_CLOCK


def total(windows: Iterable[Window]) -> float:
    """The time of the windows in seconds; one without a time counts as none."""
    return sum(one.values.get("seconds", 0.0) * (one.steps or 0) for one in windows)


_COMPUTED_AGAIN = {
    "none": "nothing is computed again",
    "full": "HFU adds one more forward pass of the layers",
    "selective": "HFU adds the attention core once more",
}


def efficiency_of(
    samples_per_second: float, model: ModelShape, layout: Layout, gpu: Gpu | None, gpus: int
) -> Efficiency:
    """TFLOP/s per GPU from a run's samples/s.

    MFU counts every matrix product once forward and twice backward.

    HFU counts what the layout computes again, too (arXiv 2205.05198); None without recomputation.
    """
    flops = model_flops(model, 1) * samples_per_second / gpus
    again = hardware_flops(model, layout._replace(global_batch=1)) * samples_per_second / gpus
    recomputes = layout.recompute != "none"
    peak = gpu.peak(layout.precision) if gpu else None
    attention = "the whole attention matrix" if model.causal else "attention"
    return Efficiency(
        tflops_per_gpu_mfu=flops / 1e12,
        tflops_per_gpu_hfu=again / 1e12 if recomputes else None,
        mfu=flops / peak if peak else None,
        hfu=again / peak if peak and recomputes else None,
        peak_tflops=peak / 1e12 if peak else None,
        gpu=gpu.name if gpu else "",
        formula=f"3 x forward FLOPs of all matrix products, with {attention} and the head; "
        + _COMPUTED_AGAIN.get(layout.recompute, "HFU adds about half a forward pass of the layers"),
    )


FEWEST = 5  # windows: of fewer, no spread is given
_NEAR = 0.1  # a window this near to the median of the last half ends the warm-up
SLOW = 1.5  # times the median: such a window saved or validated, or waited


class Steady(NamedTuple):
    """The speed of a run after the start, without the steps that save or validate.

    `from_step`: the last step of the first attempt's warm-up. `why_not`: "" if there is one.

    `seconds`: the median of a step. `warm_up`: windows of the start of every attempt; `slow`: those
    that are much slower than the median; `usual`: all others, which the spread is of.
    """

    from_step: int | None
    seconds: float | None
    usual: tuple[Window, ...]
    warm_up: tuple[Window, ...]
    slow: tuple[Window, ...]
    why_not: str = ""


def find_steady(parts: Sequence[Sequence[Window]]) -> Steady:
    """The steady state of the windows of each attempt."""
    parts = [[one for one in part if pace(one)] for part in parts]
    parts = [part for part in parts if part]
    everything = [one for part in parts for one in part]
    if len(everything) < FEWEST:
        return Steady(None, None, (), (), (), _too_few(len(everything)))
    late = _late_pace(everything)
    usual: list[Window] = []
    warm_up: list[Window] = []
    from_step = None
    for part in parts:
        own = _late_pace(part) if len(part) >= FEWEST else late  # its nodes may be slower
        # The first window is always left out: it compiles, allocates, and fills caches.
        near = (n for n, one in enumerate(part) if n and abs(pace(one) - own) <= _NEAR * own)
        start = next(near, len(part))
        from_step = part[start - 1].step if from_step is None else from_step
        warm_up += part[:start]
        usual += part[start:]
    if len(usual) < FEWEST:
        return Steady(None, None, (), tuple(everything), (), _too_few(len(usual)))
    middle = _median_pace(usual)
    slow = tuple(one for one in usual if pace(one) > SLOW * middle)
    usual = [one for one in usual if pace(one) <= SLOW * middle]
    seconds = middle if "seconds" in usual[0].values else None
    return Steady(from_step, seconds, tuple(usual), tuple(warm_up), slow)


def _late_pace(windows: Sequence[Window]) -> float:
    return _median_pace(windows[len(windows) // 2 :])


def _too_few(count: int) -> str:
    return f"too few lines with a speed after the start: {count}, and at least {FEWEST} are needed"


def pace(window: Window) -> float:
    """The time of a step, or of a sample if the batch is unknown; 0 if both are."""
    if seconds := window.values.get("seconds"):
        return seconds
    rate = window.values.get("samples_per_second") or window.values.get("tokens_per_second")
    rate = rate or window.values.get("tokens_per_second_per_gpu")
    return 1 / rate if rate else 0.0


def _median_pace(windows: Iterable[Window]) -> float:
    return _Ordered((pace(one), one.lines) for one in windows).point(0.5)


def spread_of(values: Iterable[tuple[float, int]]) -> Spread:
    """Median, 10 % and 90 % point and mean of at least one value with its number of lines."""
    values = list(values)
    ordered, count = _Ordered(values), sum(lines for _, lines in values)
    mean = sum(value * lines for value, lines in values) / count
    return Spread(ordered.point(0.5), ordered.point(0.1), ordered.point(0.9), mean, count)


class _Ordered:
    """Values in order, each as often as it has lines."""

    def __init__(self, values: Iterable[tuple[float, int]]) -> None:
        self._values = sorted(values)
        self._ends = [*itertools.accumulate(lines for _, lines in self._values)]

    def point(self, share: float) -> float:
        """The value that this share of all is below, between two values if need be."""
        place = share * (self._ends[-1] - 1)
        below, above = (
            self._values[bisect.bisect_right(self._ends, number)][0]
            for number in (math.floor(place), math.ceil(place))
        )
        return below + (above - below) * (place % 1)


def spreads(windows: Sequence[Window], names: Iterable[Quantity]) -> Mapping[Quantity, Spread]:
    found = {
        name: [(one.values[name], one.lines) for one in windows if name in one.values]
        for name in names
    }
    return {name: spread_of(values) for name, values in found.items() if values}
