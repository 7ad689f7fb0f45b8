"""What the Trainer of transformers prints (trainer_callback.py, trainer.py).

    {'loss': '2.1234', 'grad_norm': '1.02', 'learning_rate': '4.9e-05', 'epoch': '0.12'}

Version 5 has texts, earlier ones numbers. The line has no step: the progress bar before it says it.
Without a bar the lines are counted, each node's own (trainer_state.json has the true steps).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusterjobs.report.logs.formats.lightning import HINT, LEAST_SECONDS, Bar, bars_of
from clusterjobs.report.logs.records import Event, Quantity, Window

_NAMES: dict[str, Quantity] = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
_LONGEST = 10_000


@dataclass
class _Progress:
    """Of one rank's lines: the last step and epoch, the last bar, and that of the line before."""

    step: int = 0
    epoch: float = 0.0
    steps_per_epoch: float | None = None
    bar: Bar | None = None
    before: Bar | None = None


class HuggingFace:
    name = "huggingface"
    hints = ("{'loss': ", "'eval_loss': ", "'train_runtime': ", HINT)

    def __init__(self) -> None:
        self._ranks: dict[int | None, _Progress] = {}
        self._length = 0

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        progress = self._ranks.setdefault(rank, _Progress())
        for bar in bars_of(line):
            progress.bar = bar
        start = line.find("{'")
        if start < 0:
            return
        numbers = _numbers(line[start : line.rindex("}") + 1])
        if "loss" in numbers:
            yield self._window(progress, numbers, rank)
            if progress.bar and progress.bar.total != self._length:
                self._length = progress.bar.total
                yield Event("length", value=self._length)
        if "eval_loss" in numbers:
            yield Event("validation", progress.step or None, numbers["eval_loss"])
        if "train_runtime" in numbers:
            settings = {name: str(value) for name, value in numbers.items()}
            yield Event("arguments", settings=settings)
            progress.bar = progress.before = None

    def _window(
        self, progress: _Progress, numbers: Mapping[str, float], rank: int | None
    ) -> Window:
        values = {quantity: numbers[name] for name, quantity in _NAMES.items() if name in numbers}
        _advance(progress, numbers.get("epoch", 0.0))
        bar, before = progress.bar, progress.before
        if bar and before and bar.done > before.done:
            elapsed = bar.seconds - before.seconds
            if elapsed >= LEAST_SECONDS:
                values["seconds"] = elapsed / (bar.done - before.done)
        progress.before = bar
        return Window(progress.step, values, None, rank)


def _advance(progress: _Progress, epoch: float) -> None:
    """The step of the next line: by the bar, by its epoch if that fell back, else the next one."""
    bar, before = progress.bar, progress.before
    if bar and (before is None or bar.done != before.done):
        progress.step = bar.done
    elif epoch < progress.epoch and progress.steps_per_epoch:
        progress.step = max(1, round(epoch * progress.steps_per_epoch))
    else:
        progress.step += 1
    if epoch > progress.epoch:
        progress.steps_per_epoch = progress.step / epoch
    progress.epoch = epoch


def _numbers(text: str) -> dict[str, float]:
    """The numbers of a printed dictionary; a damaged one is a ValueError."""
    if len(text) > _LONGEST:
        raise ValueError("too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's parser, about damaged literals
            fields = ast.literal_eval(text.replace(": nan", ": 'nan'").replace(": inf", ": 'inf'"))
        return {name: float(value) for name, value in fields.items() if value is not None}
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("not a dictionary of numbers") from error


format_of_log = HuggingFace
