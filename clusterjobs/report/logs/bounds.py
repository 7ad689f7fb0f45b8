"""What a value of a log can be. A value outside its bounds is named with its line, and not used.

The bounds are those of physics and clocks, far beyond any real training: they catch a value that
was read from the wrong column, in the wrong unit, or from a damaged line.
"""

import functools
import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterjobs.report.logs.records import Odd, Quantity, Window


class Bound(NamedTuple):
    """The least and the most a value can be. `unit`: of the message."""

    least: float
    most: float
    unit: str = ""


_DAY = 86_400.0
_YEARS = 946_684_800.0, 4_102_444_800.0  # 2000 to 2100, in seconds since 1970
MOST_STEPS = 10**12
MOST_STEPS_A_LINE = 1_000_000  # between two neighbouring lines: more are samples or tokens
_RATE = Bound(0, 1e12)
_NORM = Bound(0, math.inf)
BOUNDS: Mapping[Quantity, Bound] = {
    "seconds": Bound(0, 7 * _DAY, " s"),
    "line_seconds": Bound(0, 3 * 365 * _DAY, " s"),
    "elapsed": Bound(0, 3 * 365 * _DAY, " s"),
    "samples_per_second": _RATE,
    "samples_per_second_per_gpu": _RATE,
    "tokens_per_second": _RATE,
    "tokens_per_second_per_gpu": Bound(0, 1e9),
    "loss": Bound(-math.inf, math.inf),
    "validation_loss": Bound(-math.inf, math.inf),
    "learning_rate": Bound(-math.inf, 1e6),
    "grad_norm": _NORM,
    "loss_scale": _NORM,
    "skipped": Bound(0, MOST_STEPS),
    "batch": Bound(1, 1e9),
    "sequence": Bound(1, 1 << 30),
    "memory_gib": Bound(0, 2048, " GiB"),
    "gpu_percent": Bound(0, 100, " %"),
    "printed_tflops_per_gpu": Bound(0, 50_000),  # several times the fastest GPU in its least bits
    "printed_mfu": Bound(0, 1),
    "printed_hfu": Bound(0, 1),
    "forward_seconds": Bound(0, 7 * _DAY, " s"),
    "backward_seconds": Bound(0, 7 * _DAY, " s"),
    "data_seconds": Bound(0, 7 * _DAY, " s"),
    "time": Bound(*_YEARS, " s since 1970"),
}
# A loss or a gradient can be NaN or infinite: that is worth knowing.
_OF_THE_TRAINING = frozenset(
    ("loss", "validation_loss", "grad_norm", "learning_rate", "loss_scale")
)
_INFINITE = 1e100  # far beyond what a training computes with; sums of such values overflow
_LEAST = 1e-12  # a smaller time or rate is a damaged number; 0 is none
_DIVIDED = frozenset(name for name in BOUNDS if "second" in name)  # rates and times
_MOST_NAMED = 3  # lines of one quantity


@functools.cache
def _limits(names: tuple[Quantity, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The least and the most of values with these names, in their order."""
    least = (_LEAST if name in _DIVIDED else BOUNDS[name].least for name in names)
    return tuple(least), tuple(BOUNDS[name].most for name in names)


class Bounds:
    """Checks the windows of one log, and remembers what was outside."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._named: list[Odd] = []
        self._time = 0.0

    def checked(self, window: Window, line: int) -> Window:
        """The window without values outside their bounds. `line`: its number in the log."""
        values = window.values
        least, most = _limits(tuple(values))
        numbers = values.values()
        if not (all(map(operator.le, least, numbers)) and all(map(operator.le, numbers, most))):
            return self._without_odd(window, line)
        if "time" in values:
            if values["time"] < self._time - _DAY:
                return self._without_odd(window, line)
            self._time = values["time"]
        return window

    def are_inside(self, columns: Mapping[str, Sequence[float]]) -> bool:
        """Whether `checked` leaves all windows of these columns as they are."""
        for name, bound in BOUNDS.items():
            if (column := columns.get(name)) is None:
                continue
            least = _LEAST if name in _DIVIDED else bound.least
            if not (
                math.isfinite(sum(column)) and least <= min(column) and max(column) <= bound.most
            ):
                return False
        times = columns.get("time", ())
        return all(map(operator.le, [self._time - _DAY, *times], times))

    def name(self, what: str, text: str, line: int) -> None:
        """Count a value outside its bounds; the first lines of each quantity are named."""
        self._counts[what] += 1
        if self._counts[what] <= _MOST_NAMED:
            self._named.append(Odd(what, text, line))

    def found(self) -> tuple[Odd, ...]:
        """The first ones of each quantity, with how many there were."""
        return tuple(one._replace(values=self._counts[one.what]) for one in self._named)

    def _without_odd(self, window: Window, line: int) -> Window:
        values: dict[Quantity, float] = {}
        for name, value in window.values.items():
            bound = BOUNDS[name]
            if name == "time" and value < self._time - _DAY:
                self.name(name, "more than a day before the line above", line)
            elif name in _OF_THE_TRAINING and not abs(value) < _INFINITE:
                values[name] = value if math.isnan(value) else math.copysign(math.inf, value)
            elif not bound.least <= value <= bound.most or (
                name in _DIVIDED and 0 < abs(value) < _LEAST
            ):
                self.name(name, f"{value:.6g}{bound.unit}", line)
            else:
                values[name] = value
        return window.with_values(values)
