"""fairseq's lines, simple and JSON (fairseq/logging/progress_bar.py, trainer.py).

    train_inner | epoch 001:   4 / 5 loss=7.695, wps=4112.2, ups=2.07, wpb=1984, num_updates=4

All values are of the job; the loss is in base 2. The time of a step is wpb / wps, since ups has two
digits. The speed in the first line of a process leaves out the first step, so it is dropped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from clusterjobs.report.logs.forms import Place, Rows
from clusterjobs.report.logs.records import Event, EventKind, Quantity, Window

_PAIR = re.compile(r"\b([a-z_]+)(?:=| )([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan))(?=, |,?$| \|)")
_ANY_PAIR = re.compile(
    r"\b([a-z_]+)(?:=| |\": \"?)([-+]?\d[\d.]*(?:e[-+]?\d+)?)(?=[,\"}](?!\d)|$| \|)"
)
_TAG = re.compile(r"(?:\| |\[)(train_inner|train|valid)\b")
# A line is searched for a pattern if it has the literal. Groups: the step, and the seconds.
_EVENTS: tuple[tuple[EventKind, str, re.Pattern[str]], ...] = (
    (
        "saved",
        "Saved checkpoint ",
        re.compile(r"@ (\d{1,15}) updates, score [^()]{1,40}\) \(writing took ([\d.]{1,20}) sec"),
    ),
    (
        "saving",
        "Preparing to save checkpoint ",
        re.compile(r"Preparing to save checkpoint for epoch \d{1,9} @ (\d{1,15}) updates"),
    ),
    ("resumed", "Loaded checkpoint ", re.compile(r"\(epoch \d{1,9} @ (\d{1,15}) updates\)")),
)
_ITS_OWN = frozenset(("wps", "ups", "wpb", "bsz", "ppl"))
_NO_CHECKPOINT = "No existing checkpoint found"
_PLAIN: dict[str, Quantity] = {
    "lr": "learning_rate",
    "gnorm": "grad_norm",
    "loss_scale": "loss_scale",
    "wps": "tokens_per_second",
    "bsz": "batch",
}


class Fairseq:
    """One log. Of an epoch without a line `train_inner`, the line at its end counts."""

    name = "fairseq"
    hints = ("num_updates", " updates", _NO_CHECKPOINT)

    _is_first = True  # whether the process has had no line
    _is_inside = False  # whether the epoch has had a line

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        for kind, literal, pattern in _EVENTS:
            if literal in line and (found := pattern.search(line)):
                self._is_first = self._is_first or kind == "resumed"
                value = float(found[2]) if pattern.groups > 1 else None
                return (Event(kind, int(found[1]), value),)
        self._is_first = self._is_first or _NO_CHECKPOINT in line
        tag = _TAG.search(line)
        numbers = _numbers(line, tag[1]) if tag else {}
        if not tag or "num_updates" not in numbers:
            return ()
        if tag[1] != "train_inner" and numbers.keys().isdisjoint(_ITS_OWN):
            return ()  # of another program, whose losses are in nats
        step = int(numbers["num_updates"])
        if tag[1] == "valid":
            return (Event("validation", step, numbers.get("loss", math.nan) * math.log(2)),)
        was_inside, self._is_inside = self._is_inside, tag[1] == "train_inner"
        if tag[1] == "train" and was_inside:
            return ()
        values = _values(numbers)
        if self._is_first:
            values.pop("seconds", None)
            values.pop("tokens_per_second", None)
        self._is_first = False
        return (Window(step, values, None, rank),)

    def places(self, line: str) -> Sequence[Place]:
        """A line inside of an epoch."""
        if "train_inner" not in line:
            return ()
        starts = {found[1]: found.start(2) for found in _ANY_PAIR.finditer(line)}
        names = {**_PLAIN, "num_updates": "step", "loss": "loss", "wpb": "wpb"}
        scales = {"loss": math.log(2)}
        if not {"wps", "wpb"} <= starts.keys():
            return ()
        return [
            Place(known, starts[name], scales.get(name, 1.0))
            for name, known in names.items()
            if name in starts
        ]

    def finish(self, rows: Rows) -> Rows | None:
        values = rows.values
        if self._is_first or 0 in values["wpb"] or 0 in values["tokens_per_second"]:
            return None
        self._is_inside = True
        words = zip(values.pop("wpb"), values["tokens_per_second"], strict=True)
        values["seconds"] = [batch / rate for batch, rate in words]
        return rows


def _numbers(line: str, tag: str) -> dict[str, float]:
    """The fields of a line. In JSON, those at the end of an epoch begin with the tag."""
    start = line.find('{"epoch"')
    if start < 0:
        return {name: float(text) for name, text in _PAIR.findall(line)}
    fields: Mapping[str, object] = json.loads(line[start : line.rindex("}") + 1])
    known = ((name.removeprefix(f"{tag}_"), value) for name, value in fields.items())
    return {name: float(str(value)) for name, value in known if value is not None}


def _values(numbers: Mapping[str, float]) -> dict[Quantity, float]:
    values: dict[Quantity, float] = {
        quantity: numbers[name] for name, quantity in _PLAIN.items() if name in numbers
    }
    if "loss" in numbers:
        values["loss"] = numbers["loss"] * math.log(2)
    if numbers.get("wps") and numbers.get("wpb"):
        values["seconds"] = numbers["wpb"] / numbers["wps"]
    elif numbers.get("ups"):
        values["seconds"] = 1 / numbers["ups"]
    return values


format_of_log = Fairseq
