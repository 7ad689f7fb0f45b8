"""What the Trainer of transformers prints (trainer_callback.py, trainer.py).

    {'loss': '2.1234', 'grad_norm': '1.02', 'learning_rate': '4.9e-05', 'epoch': '0.12'}
    {'train_runtime': '49.99', 'train_steps_per_second': '12', 'train_loss': '1.3', 'epoch': '3'}

Version 5 has texts, earlier ones numbers. The line has no step: the bar that is drawn behind it
says it. If the lines come in bursts, from a buffer, or without a bar, their epochs say it, once the
last line has told how many steps an epoch has (trainer_state.json has the true steps).
"""

import ast
import itertools
import math
import re
import statistics
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clusterjobs.report.logs.bounds import MOST_STEPS
from clusterjobs.report.logs.formats.bars import HINTS, Bar, Speeds, Waiting, bars_of
from clusterjobs.report.logs.records import Event, Quantity, Window

_NAMES: dict[str, Quantity] = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
_LONGEST = 10_000
_MOST_EPOCHS = 1e6
_MOST_BARS = 100  # of different lengths: loading, mapping, evaluation
_OFF = 0.3  # of a step
_FEWEST = 3  # lines that show which bar has their step
_MOST_LINES = 200_000  # that wait for the length of an epoch
_INTERVALS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000)  # usual logging_steps


_ITEM = r"'[a-z_]{1,40}': (?:'[-+\d.e]{1,30}'|[-+\d.e]{1,30})"
_PLAIN = re.compile(rf"\{{{_ITEM}(?:, {_ITEM}){{0,30}}\}}")  # as nearly always
# Before the dictionary stands nothing, a bar, or who prints it: others write a name there.
_FRONT = re.compile(r"[^A-Za-z]*(?:\([^()]{0,200}\))?[^A-Za-z]*")
_PAIR = re.compile(r"'([a-z_]+)': '?([-+\d.e]+)")


class _Line:
    """A printed dictionary with a loss."""

    def __init__(self, numbers: Mapping[str, float], rank: int | None) -> None:
        epoch = numbers.get("epoch", 0.0)
        self.epoch = epoch if 0 <= epoch < _MOST_EPOCHS else 0.0
        self.rank = rank
        self.values = {name: numbers[key] for key, name in _NAMES.items() if key in numbers}

    def at(self, step: int) -> Window:
        return Window(step, self.values, None, self.rank)


@dataclass
class _Progress:
    """Of one rank's lines. `bar`: the last state; `line`: it waits for the bar behind it.

    `lines`: those whose step only their epochs say. `pairs`: of the lines that wait, the epoch, and
    the states of the bar before and behind; `takes_before`: which of the two has the step.
    `speeds`: of each bar, by its length.
    """

    bar: Bar | None = None
    line: _Line | None = None
    lines: list[_Line] = field(default_factory=list)
    waiting: Waiting = field(default_factory=Waiting)
    speeds: dict[int, Speeds] = field(default_factory=dict)
    above: int = 0  # the state before `line`
    pairs: list[tuple[float, int, int]] = field(default_factory=list)
    takes_before: bool | None = None
    is_old: bool = False  # of version 4
    interval: int = 1  # steps between two lines

    def on_interval(self, step: int) -> int:
        """The step of a line, of a state before it that may be a few steps old."""
        if not self.takes_before:
            return step
        return max(1, round(step / self.interval)) * self.interval

    step: int = 0
    total: int = 0


class HuggingFace:
    name = "huggingface"
    hints = ("{'loss': ", "'eval_loss': ", "'train_runtime': ", *HINTS)

    def __init__(self) -> None:
        self._ranks: dict[int | None, _Progress] = {}

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        progress = self._ranks.setdefault(rank, _Progress())
        for bar in bars_of(line):
            yield from self._draw(progress, bar)
        start = line.find("{'")
        if start < 0 or not _FRONT.fullmatch(line[:start].rpartition("]")[2]):
            return
        numbers = _numbers(line[start : line.rindex("}") + 1])
        if "loss" in numbers:
            progress.is_old = "'epoch': '" not in line
            yield from self._print(progress, _Line(numbers, rank))
        if "eval_loss" in numbers:
            # The next state of the bar has waited for the evaluation.
            yield from _placed(progress, progress.waiting.begin())
            yield Event("validation", progress.step or None, numbers["eval_loss"])
        if "train_runtime" in numbers:
            settings = {name: str(value) for name, value in numbers.items()}
            yield from self._end(progress, numbers)
            yield Event("arguments", settings=settings)
            self._ranks[rank] = _Progress()

    def held(self) -> list[Window | Event]:
        """What waits for a bar, a speed, or the length of an epoch."""
        found: list[Window | Event] = []
        for one in self._ranks.values():
            found += _placed(replace(one), one.waiting.held())
            speeds = one.speeds.get(one.total or (one.bar.total if one.bar else 0))
            found += _by_epoch(_all_lines(one), _guess(one), speeds)
        return found

    def drop_held(self) -> None:
        self._ranks.clear()

    def _draw(self, progress: _Progress, bar: Bar) -> Iterator[Window | Event]:
        """A state of a bar: that of the training, or of an evaluation in between."""
        if progress.total and bar.total != progress.total:
            return
        before, progress.bar = progress.bar, bar
        if bar.total in progress.speeds or len(progress.speeds) < _MOST_BARS:
            progress.speeds.setdefault(bar.total, Speeds()).see(bar)
        if progress.line and not progress.lines:
            line, progress.line = progress.line, None
            if not progress.total:
                progress.total = bar.total
                yield Event("length", value=bar.total)
            progress.step = bar.done
            progress.pairs.append((line.epoch, progress.above, bar.done))
            progress.waiting.add(bar.done, line.at(bar.done))
        if before and before.total == bar.total:
            least = _FEWEST if progress.takes_before is None else 1
            yield from _placed(progress, progress.waiting.see(bar, least))
        else:
            yield from _placed(progress, progress.waiting.begin())
            progress.waiting.see(bar)

    def _print(self, progress: _Progress, line: _Line) -> Iterator[Window | Event]:
        """A line with a loss. If another one waits, no bar was drawn between them: a burst."""
        if not (progress.line or progress.lines or progress.bar is None):
            progress.line, progress.above = line, progress.bar.done
            return
        yield from _placed(progress, progress.waiting.begin())
        progress.lines, progress.line = _all_lines(progress), None
        progress.lines.append(line)
        if len(progress.lines) > _MOST_LINES:
            yield from _by_epoch(progress.lines, _guess(progress), None)
            progress.lines = []

    def _end(self, progress: _Progress, numbers: Mapping[str, float]) -> Iterator[Window | Event]:
        """The last line: how many steps there were, and how many epochs they are."""
        steps = numbers["train_runtime"] * numbers.get("train_steps_per_second", 0.0)
        done = round(steps) if 0 <= steps < MOST_STEPS else 0
        total = progress.total or (progress.bar.total if progress.bar else 0) or done
        if done and progress.lines:  # the last bar may be that of an evaluation
            total = min([total, *progress.speeds], key=lambda one: abs(one - steps))
        epochs = _Line(numbers, None).epoch
        yield from _placed(progress, progress.waiting.begin())
        if progress.line and progress.bar:  # nothing was drawn behind the last line
            yield progress.line.at(progress.on_interval(progress.bar.done))
        lines = progress.lines
        speeds = progress.speeds.get(total)
        yield from _by_epoch(lines, total / epochs if epochs else None, speeds)
        if lines and total:
            yield Event("length", value=total)


def _all_lines(progress: _Progress) -> list[_Line]:
    if progress.line:
        return [*progress.lines, progress.line]
    return progress.lines


def _placed(progress: _Progress, windows: Sequence[Window]) -> list[Window]:
    """The windows, which have the step of the bar behind them, at their own steps.

    The Trainer draws the bar again behind a line, so that it has the step of the line. A program
    that prints a line by itself prints it behind the bar. The right ones rise as the epochs do.
    """
    if not windows:
        return []
    pairs = [one for one in progress.pairs if one[0] > 0]
    if progress.takes_before is None:
        progress.takes_before = not _are_steps(
            [(epoch, behind) for epoch, _, behind in pairs], progress.is_old
        )
    steps = {behind: before for _, before, behind in progress.pairs}
    progress.pairs = []
    if not progress.takes_before:
        return list(windows)
    gaps = [after[2] - one[2] for one, after in itertools.pairwise(pairs)]
    progress.interval = max(1, statistics.mode(gaps)) if gaps else progress.interval
    placed = [steps.get(one.step, one.step) for one in windows]
    return [
        one._replace(step=progress.on_interval(step))
        for one, step in zip(windows, placed, strict=True)
    ]


def _are_steps(pairs: Sequence[tuple[float, int]], is_old: bool) -> bool:
    """Whether these states rise as the epochs do, as far as the digits of the epochs say it.

    Version 4 prints two decimals, version 5 four digits.
    """
    if len(pairs) < 2 or not pairs[-1][0]:
        return True
    ratio = pairs[-1][1] / pairs[-1][0]
    digits = 0.01 if is_old else 1e-3
    return all(
        abs(state - ratio * epoch) <= _OFF + ratio * (digits if is_old else digits * epoch)
        for epoch, state in pairs
    )


def _guess(progress: _Progress) -> float | None:
    """Steps of an epoch, as far as the last bar and the last line say it."""
    lines = _all_lines(progress)
    if not lines or not progress.bar or not lines[-1].epoch:
        return None
    gap = _gap(lines)
    if not gap:
        return None
    steps = progress.bar.done / lines[-1].epoch * gap  # between two lines, at most
    return max((one for one in _INTERVALS if one <= 1.2 * steps), default=1) / gap


def _gap(lines: Sequence[_Line]) -> float:
    """The mean part of an epoch between two lines; an epoch has only a few digits."""
    gaps = [after.epoch - one.epoch for one, after in itertools.pairwise(lines)]
    forward = [one for one in gaps if one >= 0]
    return sum(forward) / len(forward) if forward else lines[0].epoch if lines else 0.0


def _by_epoch(
    lines: Sequence[_Line], steps_per_epoch: float | None, speeds: Speeds | None
) -> Iterator[Window | Event]:
    """Windows with the steps that their epochs say; without a length of an epoch, lines count.

    Lines count from the first, and from each whose epoch falls back, as it does after a restart.
    `speeds`: of the bar that was drawn before them.
    """
    gap = _gap(lines)
    interval = max(1, round(gap * steps_per_epoch)) if steps_per_epoch else 1
    count, before = 0, math.inf
    if lines and not steps_per_epoch:
        yield Event("lines")
    for line in lines:
        starts_again = line.epoch < before
        count = max(1, round(line.epoch / gap)) if gap and starts_again else count + 1
        before = line.epoch
        window = line.at(count * interval)
        if steps_per_epoch and speeds and (seconds := speeds.at(window.step)):
            window = window.with_values({**window.values, "seconds": seconds})
        yield window


def _numbers(text: str) -> dict[str, float]:
    """The numbers of a printed dictionary; a damaged one is a ValueError.

    None of one with texts or a step, as programs print that extend the Trainer: it says its own.
    """
    if len(text) > _LONGEST:
        raise ValueError("too long")
    if "'step': " in text:
        return {}
    if _PLAIN.fullmatch(text):
        return {name: float(number) for name, number in _PAIR.findall(text)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's parser, about damaged literals
            fields = ast.literal_eval(text.replace(": nan", ": 'nan'").replace(": inf", ": 'inf'"))
        try:
            return {name: float(value) for name, value in fields.items() if value is not None}
        except ValueError:
            return {}
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("not a dictionary of numbers") from error


format_of_log = HuggingFace
