"""Metrics that libraries write into files of their own: exact steps, where a log has a bar at best.

`metrics.csv` of Lightning's CSVLogger and others, `trainer_state.json` of transformers' Trainer,
and TensorBoard's event files. The names of values are those of lines (`general/names.py`).
"""

import contextlib
import csv
import io
import itertools
import json
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast, get_args

from clusterjobs.errors import one_problem
from clusterjobs.extras import how_to_install
from clusterjobs.report.logs.bounds import MOST_STEPS, Bounds
from clusterjobs.report.logs.general.names import OWN, field_of
from clusterjobs.report.logs.records import Event, Log, Quantity, Window

EVENTS = "events.out.tfevents."
_FILES = ("metrics.csv", "trainer_state.json", f"{EVENTS}*")
_DEEP = 5  # folders below a run's
_MOST_FILES = 10_000
_LARGEST = 256 << 20  # bytes
_QUANTITIES = frozenset(get_args(Quantity))
_HISTORY: dict[str, Quantity] = {
    "loss": "loss",
    "eval_loss": "validation_loss",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
}


def metric_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Files with metrics below a run's folder; of event files, the folder that holds them."""
    depths = ("/".join(["*"] * depth) for depth in range(_DEEP + 1))
    patterns = [f"{depth}/{name}".lstrip("/") for depth in depths for name in _FILES]
    found = itertools.chain.from_iterable(map(folder.glob, patterns))
    files = [one for one in itertools.islice(found, _MOST_FILES) if one.is_file()]
    return sorted({one.parent if one.name.startswith(EVENTS) else one for one in files})


def read_metric_file(path: pathlib.Path) -> Log | None:
    """The log that a file, or a folder of event files, stands for; None if it is none of them."""
    if path.is_dir() or path.name.startswith(EVENTS):
        return _events(sorted(path.glob(f"{EVENTS}*")) if path.is_dir() else [path])
    if path.suffix not in (".csv", ".json") or not path.is_file():
        return None
    if path.stat().st_size > _LARGEST:
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".json":
        return _trainer_state(text)
    return _csv(text) if "step" in text.partition("\n")[0].strip().split(",") else None


def _events(files: Iterable[pathlib.Path]) -> Log:
    """Of a step that several files have, the later file counts. Raises InputError."""
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        raise one_problem(
            "event files need the package tensorboard", hint=how_to_install("tensorboard")
        ) from None
    steps: dict[int, dict[Quantity, float]] = {}
    lines = size = 0
    for file in files:
        size += file.stat().st_size
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                lines += 1
                known = _known(value.tag)
                number = _number(make_ndarray(value.tensor).tolist()) if known else None
                if known and number is not None and 0 <= event.step < MOST_STEPS:
                    values = steps.setdefault(event.step, {"time": event.wall_time})
                    values[known[0]] = number * known[1]
    return _log("tensorboard", steps, lines, size, 0)


def _csv(text: str) -> Log:
    """Lightning has a column for the epoch, and counts steps from 0."""
    is_lightning = "epoch" in text.partition("\n")[0].strip().split(",")
    steps: dict[int, dict[Quantity, float]] = {}
    lines = dropped = 0
    for row in _rows(text):
        lines += 1
        step = _step(row.get("step"))
        if step is None:
            dropped += 1
            continue
        values = steps.setdefault(step + is_lightning, {})
        for name, cell in row.items():
            if (known := _known(name)) and (value := _number(cell)) is not None:
                values[known[0]] = value * known[1]
    return _log("lightning" if is_lightning else "metrics.csv", steps, lines, len(text), dropped)


def _rows(text: str) -> Iterator[Mapping[object, object]]:
    """The rows, up to one that is damaged: csv takes no cell of more than 128 KiB."""
    with contextlib.suppress(csv.Error):
        yield from csv.DictReader(io.StringIO(text))


_FLOPS = re.compile(r"device[^a-z]flops_per_sec$")  # of Lightning's ThroughputMonitor


def _known(name: object) -> tuple[Quantity, float] | None:
    """The quantity of a column or tag, and what its numbers are multiplied by.

    Extra cells of a damaged row have no column.
    """
    if not isinstance(name, str) or name.endswith("_epoch"):
        return None
    if _FLOPS.search(name):
        return "printed_tflops_per_gpu", 1e-12
    if name.startswith("lr-"):
        return "learning_rate", 1.0
    words = tuple(re.findall(r"[a-z0-9]+", name.lower()))
    field = field_of(words, "%" if "%" in name else "", OWN)
    if field is None or field.is_inverse or field.meaning not in _QUANTITIES:
        return None
    if field.is_other:
        return ("validation_loss", 1.0) if field.meaning == "loss" else None
    return cast("Quantity", field.meaning), field.scale


def _trainer_state(text: str) -> Log | None:
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        return None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        return None
    steps: dict[int, dict[Quantity, float]] = {}
    entries = [one for one in history if isinstance(one, dict) and _step(one.get("step"))]
    for entry in entries:
        values = steps.setdefault(_step(entry["step"]) or 0, {})
        for name, quantity in _HISTORY.items():
            if (value := _number(entry.get(name))) is not None:
                values[quantity] = value
    dropped = len(history) - len(entries)
    return _log("huggingface", steps, len(history), len(text), dropped)


def _step(cell: object) -> int | None:
    """A whole number that a step can have."""
    number = _number(cell)
    if number is None or not 0 <= number < MOST_STEPS or number != int(number):
        return None
    return int(number)


def _number(cell: object) -> float | None:
    """A number of a cell; NaN is one, since a loss can be it."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float, str)):
        return None
    try:
        value = float(cell)
    except (ValueError, OverflowError):
        return None
    return value if math.isnan(value) or abs(value) < 1e300 else None


def _log(
    name: str,
    steps: Mapping[int, Mapping[Quantity, float]],
    lines: int,
    size: int,
    dropped: int,
) -> Log:
    """The log in the order of the steps; a validation alone is no step of the training."""
    records: list[Window | Event] = []
    bounds = Bounds()
    for step, values in sorted(steps.items()):
        if values.keys() - {"validation_loss", "time"}:
            records.append(bounds.checked(Window(step, values), step))
        elif "validation_loss" in values:
            records.append(Event("validation", step, values["validation_loss"]))
    return Log(name, tuple(records), lines, size, dropped, odd=bounds.found())
