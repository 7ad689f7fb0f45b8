"""MLPerf's log lines: JSON behind `:::MLLOG`, of which the tracked statistics have the speed.

    :::MLLOG {"key": "tracked_stats", "value": {"train_step_time": 5.4}, "metadata": {"step": 100}}

The step is in the metadata, or follows from the samples and the batch that an earlier line says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from clusterjobs.report.logs.records import Event, Quantity, Window

_MARK = ":::MLLOG "
_LONGEST = 100_000
_VALUES: dict[str, Quantity] = {
    "train_step_time": "seconds",
    "train_step_timing": "seconds",
    "reduced_train_loss": "loss",
    "train_loss": "loss",
    "loss": "loss",
    "lr": "learning_rate",
}


class MlPerf:
    name = "mlperf"
    hints = (_MARK,)

    _batch: float | None = None

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        entry = _entry(line.partition(_MARK)[2])
        key, value, metadata = entry.get("key"), entry.get("value"), entry.get("metadata")
        if key == "global_batch_size" and isinstance(value, (int, float)):
            self._batch = float(value)
        if key != "tracked_stats" or not isinstance(value, dict) or not isinstance(metadata, dict):
            return
        step = self._step(metadata)
        found = ((_VALUES.get(name), number) for name, number in value.items())
        values = {name: float(number) for name, number in found if name and _is_number(number)}
        if step and values:
            values |= {"batch": self._batch} if self._batch else {}
            if _is_number(milliseconds := entry.get("time_ms")):
                values["time"] = milliseconds / 1000
            yield Window(step, values, None, rank)

    def _step(self, metadata: Mapping[str, Any]) -> int | None:
        if _is_number(step := metadata.get("step")):
            return int(step)
        if self._batch and _is_number(samples := metadata.get("samples_count")):
            return round(samples / self._batch)
        return None


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
