"""MLPerf's log lines: JSON behind `:::MLLOG`.

    :::MLLOG {"key": "tracked_stats", "value": {"train_step_time": 5.4}, "metadata": {"step": 100}}
    :::MLLOG {"key": "block_stop", "time_ms": 1715083450822, "metadata": {"samples_count": 1536}}

What is called `step`, `samples_count` or `epoch_num` counts steps, samples, tokens or epochs, as
the submission likes it. The batch, and the speed or the time between two counts, tell which.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from clusterjobs.report.logs.records import Event, Quantity, Window

_MARK = ":::MLLOG "
_LONGEST = 100_000
_VALUES: dict[str, Quantity] = {
    "train_step_time": "seconds",
    "train_step_timing": "seconds",
    "throughput": "samples_per_second",
    "reduced_train_loss": "loss",
    "train_loss": "loss",
    "loss": "loss",
    "lr": "learning_rate",
}
_COUNTS = ("step", "samples_count", "epoch_num")
# Their batch counts what `train_samples` counts; that of texts may be of tokens.
_OF_IMAGES = ("resnet", "ssd", "maskrcnn", "retinanet", "unet3d")
_SIZES = ("global_batch_size", "max_sequence_length", "train_samples")
_SAME = 1.5  # a count and the time agree up to this factor: some of it is evaluation
_EVAL = "eval_accuracy"
_ENDS = ("block_stop", _EVAL)


class MlPerf:
    """One log. `_units`: counts of a step, by the name of the count."""

    name = "mlperf"
    hints = (_MARK,)

    def __init__(self) -> None:
        self._sizes: dict[str, float] = {}
        self._units: dict[str, float] = {}
        self._before: dict[str, tuple[float, float]] = {}  # count and time
        self._start: tuple[float, float] | None = None  # of a block
        self._has_blocks = False
        self._rate = 0.0
        self._is_of_images = False

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        entry = _entry(line.partition(_MARK)[2])
        key, value, metadata = entry.get("key"), entry.get("value"), entry.get("metadata")
        milliseconds = entry.get("time_ms")
        time = milliseconds / 1000 if _is_number(milliseconds) else None
        if key in _SIZES and _is_number(value) and value > 0:
            self._sizes[key] = float(value)
        if key == "submission_benchmark":
            self._is_of_images = value in _OF_IMAGES
        name, count = _count(metadata if isinstance(metadata, dict) else {})
        if key == "block_start" and time is not None:
            first = metadata.get("first_epoch_num") if isinstance(metadata, dict) else None
            self._start = float(first) if _is_number(first) else (count or 0.0), time
            self._before.setdefault(name or _COUNTS[1], self._start)
        values: dict[Quantity, float] = {}
        if key == "tracked_stats" and isinstance(value, dict):
            found = ((_VALUES.get(name), number) for name, number in value.items())
            values = {name: float(number) for name, number in found if name and _is_number(number)}
        elif key not in _ENDS:
            return
        self._has_blocks |= key == "block_stop" and bool(count)
        if not count or not (values or time is not None) or (key == _EVAL and self._has_blocks):
            return
        step = self._step(name, count, time, values)
        if step is None or step <= 0:
            return
        if key == "block_stop" and self._start and time is not None:
            steps = (count - self._start[0]) / self._units[name]
            if steps > 0 and time > self._start[1]:  # without evaluations between blocks
                values["seconds"] = (time - self._start[1]) / steps
            self._start = None
        if "global_batch_size" in self._sizes:
            values["batch"] = self._sizes["global_batch_size"]
        if time is not None:
            values["time"] = time
        yield Window(step, values, None, rank)

    def _step(
        self, name: str, count: float, time: float | None, values: Mapping[Quantity, float]
    ) -> int | None:
        """The step of a count; None while it is unknown what is counted."""
        if name not in self._units and (unit := self._unit_of(name, count, time, values)):
            self._units[name] = unit
        if time is not None:
            self._before[name] = count, time
        unit = self._units.get(name)
        return None if unit is None else round(count / unit)

    def _unit_of(
        self, name: str, count: float, time: float | None, values: Mapping[Quantity, float]
    ) -> float | None:
        """Counts of a step: the one that agrees with the speed, else the one that divides."""
        batch = self._sizes.get("global_batch_size")
        if batch is None:
            return 1.0
        tokens = batch * self._sizes.get("max_sequence_length", math.inf)
        epochs = batch / self._sizes.get("train_samples", math.inf)
        known = [one for one in (1.0, batch, tokens, epochs) if 0 < one < math.inf]
        self._rate = values.get("samples_per_second") or self._rate
        step = values.get("seconds") or batch / (self._rate or math.inf)
        before = self._before.get(name)
        if step and before and time is not None and count > before[0]:
            steps = (time - before[1]) / step
            near = [one for one in known if _agree((count - before[0]) / one, steps)]
            if near:
                return near[0]
        if count % tokens == 0:
            return tokens
        if count % batch == 0:
            return batch
        if name == "epoch_num" and self._is_of_images and 0 < epochs < 1 and not step:
            return epochs
        return 1.0 if name == "step" and not step else None


def _agree(one: float, other: float) -> bool:
    return other > 0 and 1 / _SAME <= one / other <= _SAME


def _count(metadata: Mapping[str, Any]) -> tuple[str, float | None]:
    """What the line counts, at its end, and the name of it."""
    first, more = metadata.get("first_epoch_num"), metadata.get("epoch_count")
    if _is_number(first) and _is_number(more):
        return _COUNTS[2], float(first + more)
    for name in _COUNTS:
        if _is_number(number := metadata.get(name)):
            return name, float(number)
    return "", None


def _entry(text: str) -> dict[str, Any]:
    """A damaged line is a ValueError."""
    if len(text) > _LONGEST:
        raise ValueError("too long")
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return found if isinstance(found, dict) else {}


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300


format_of_log = MlPerf
