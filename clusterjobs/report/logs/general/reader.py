"""Finds the step, the speed and the losses of a line, by the names that people give to them.

    step 12/100 loss 3.4 samples/s 51.2
    Epoch [1][50/7517]  lr: 0.001, time: 0.593, loss: 4.46

A line without a step that is indented goes on with the step above. Lines that differ in their
numbers alone are read by the pattern of the first of them (`templates.py`).
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from clusterjobs.report.logs.clock import stamp_of
from clusterjobs.report.logs.forms import Place, Rows
from clusterjobs.report.logs.general.names import (
    BY_UNIT,
    DIALECTS,
    OTHER,
    OWN,
    PART,
    Dialect,
    Field,
    field_of,
)
from clusterjobs.report.logs.general.numbers import (
    Number,
    has_decimal_comma,
    is_either,
    numbers_of,
    value_of,
)
from clusterjobs.report.logs.general.table import Table, table_of
from clusterjobs.report.logs.general.unnamed import Form
from clusterjobs.report.logs.records import Event, Quantity, Window

_OTHER_LINE = re.compile(rf"(?<![\w/.])(?:{'|'.join(sorted(OTHER))})(?![\w/.])")
_KERAS = re.compile(r" ?/ ?\d{1,15} (?:\[[=>.]|\u2501)")
_COUNTED = re.compile(r" ?/ ?\d{1,15} (?:batches|steps|iterations|iters)\b")
_TRAINING = (("train",), ("training",))
# `Train Epoch: 1 [640/60000 (1%)]`, as PyTorch's example for MNIST prints it, and what it became.
_OF_SAMPLES = re.compile(r"\bepoch: ?\d{1,9} \[ *\d{1,15}/\d{1,15} \( *[\d.]{1,9}%\)\]")
_BATCH = re.compile(
    r"\s{0,80}batch_size: {1,80}(\d{1,9})\b"
)  # of the options that are printed first
_LEAST_PERCENT = 2.0  # of an MFU without a unit
_IN_MIB = 1000  # a smaller memory without a unit may be in GiB
_FAIRSEQ = re.compile(r"\| train(?:_inner)? \| |\[train_inner\]")  # whose losses are in base 2
BAR = "%|"
_ETA = re.compile(r"\beta\b")
_VAGUE = (("time",), ("seconds",))
_BEHIND_HEAD = " :])/0123456789=-*"  # `[epoch=2][batch=10/200]:`, whose values are below it
_MOST_EPOCHS = 1000  # that are remembered
_MOST_LINES = 60  # that go on with one step
_NO_VALUES = ("step", "rounded", "epoch", "length")
_RATES = ("seconds", "samples_per_second", "tokens_per_second")
_SPEEDS = ("seconds", "samples", "tokens", "elapsed")
# Programs that print one of these beside a `time` mean that of a step.
_BESIDE = ("data_seconds", "printed", "samples", "tokens")
_DIGITS = re.compile(r"[\d.+\-e]*\d")
_CONVERTED = ("printed_mfu", "printed_hfu", "memory_gib")  # by more than a factor
_DECIMAL = frozenset(("loss", "learning_rate", "grad_norm", "seconds"))


class Epochs:
    """Steps since the start, of one rank whose lines may count them from the start of an epoch.

    They do if the step falls back where the epoch goes up.
    """

    def __init__(self) -> None:
        self._before: dict[int, int] = {}  # epoch -> steps before it
        self._epoch: int | None = None
        self._step = self._gap = 0  # the last one in the log, and its distance to the one before

    def step(self, epoch: int, step: int, length: int) -> int:
        """`length`: of an epoch, 0 if the line does not say it."""
        if epoch not in self._before:
            before = self._before.get(self._epoch, 0) if self._epoch is not None else 0
            if self._epoch is not None and step <= self._step and epoch > self._epoch:
                # Of the first lines, the first step is the distance, too.
                seen = self._step + (self._gap or self._step) - step
                own = length * (epoch - self._epoch) if length else seen
                before += own
            self._before[epoch] = before
            if len(self._before) > _MOST_EPOCHS:
                del self._before[next(iter(self._before))]
        elif epoch == self._epoch and step > self._step:
            self._gap = step - self._step
        self._epoch, self._step = epoch, step
        return self._before[epoch] + step


class Above(NamedTuple):
    """The step that lines below go on with, and how many did. `time`: that its line shows."""

    step: int
    time: float | None
    lines: int = 0


class Meant(NamedTuple):
    """A number of a line that says something: the place in the list of its numbers."""

    number: int
    unit: str
    field: Field

    def of_line(self) -> Meant:
        """The same meaning for a line that covers an unknown number of steps."""
        return self._replace(field=self.field._replace(meaning="line_seconds"))


class Found(NamedTuple):
    """What the numbers of a line mean. `step` and `epoch`: their places, -1 without one.

    `length`: of the training, or of an epoch; 0 if the line does not say it. `length_at`: its
    place, if it is a number of its own. `is_other`: the line is of a validation.
    """

    step: int
    epoch: int
    length: int
    length_at: int
    values: tuple[Meant, ...]
    others: tuple[Meant, ...]  # of a validation
    is_other: bool
    is_of_epoch: bool  # the step counts from the start of its epoch
    is_rounded: bool  # the step is `1.2K`, so lines have to be counted
    is_timed: bool  # has a speed, or a time since the start
    is_clear: bool  # the same numbers mean the same in every line of this form


def find(
    line: str, numbers: Sequence[Number], dialect: Dialect, above: tuple[str, ...] = ()
) -> Found:
    """What a line in small letters says. `above`: the name of the step that it may go on with."""
    # `25012/24123 tok/s` are two rates, of which neither is meant.
    fields = [
        None if one.total and one.unit else field_of(one.name, one.unit, dialect) for one in numbers
    ]
    known = [(place, field) for place, field in enumerate(fields) if field]
    epoch = next(
        (n for n, field in known if field.meaning == "epoch" and _is_whole(numbers[n])), -1
    )
    steps = [
        (field.rank, place)
        for place, field in known
        if field.meaning == "step"
        and _is_whole(numbers[place])
        and _is_counted(numbers[place], epoch >= 0 or dialect is not OWN)
    ]
    step = min(steps)[1] if steps else -1
    is_of_epoch = step >= 0 and numbers[step].name[-1:] == ("batch",) and numbers[step].total > 0
    if step < 0:
        epoch, step = _in_brackets(numbers, epoch, line)
        is_of_epoch = step >= 0 and epoch >= 0
    counted = numbers[step].name if step >= 0 else above
    length_at = next((place for place, field in known if field.meaning == "length"), -1)
    other_steps = {
        numbers[place].text for _, place in steps if numbers[place].text != numbers[step].text
    }
    ranks: dict[tuple[str, bool], tuple[int, bool]] = {}
    best: dict[tuple[str, bool], Meant] = {}
    has_bar = BAR in line
    for place, field in known:
        if field.meaning in _NO_VALUES or place in (step, epoch):
            continue
        if field.is_inverse and counted and _is_of_others(numbers[place], counted):
            continue
        if other_steps and field.meaning == "seconds" and "iter" in numbers[place].name:
            continue  # of a micro batch, of which a step has several
        if has_bar and field.rank >= BY_UNIT and field.meaning == "seconds":
            continue  # a bar's speed is smoothed, and of batches
        key = field.meaning, field.is_other
        # A bar in front of the step has values of an earlier one.
        rank = field.rank, place < step
        if key not in ranks or rank < ranks[key]:
            ranks[key], best[key] = rank, Meant(place, numbers[place].unit, field)
        elif rank == ranks[key] and field.meaning == "loss" and PART <= field.rank < BY_UNIT:
            best.pop(key, None)  # losses of several parts, and none of the whole
    is_of_step = _ETA.search(line) or any(name.startswith(_BESIDE) for name, _ in best)
    values = tuple(
        one if is_of_step or not _is_vague(numbers, one) else one.of_line()
        for one in best.values()
        if not one.field.is_other
    )
    return Found(
        step,
        epoch,
        numbers[step].total if step >= 0 else 0,
        length_at,
        values,
        tuple(one for one in best.values() if one.field.is_other),
        step >= 0 and _OTHER_LINE.search(line, 0, numbers[step].start) is not None,
        is_of_epoch,
        step < 0 and any(field.meaning == "rounded" for _, field in known),
        any(one.field.meaning.startswith(_SPEEDS) for one in values),
        is_clear=len(steps) < 2,
    )


def _is_of_others(rate: Number, counted: tuple[str, ...]) -> bool:
    """`65,536 steps/s` in iteration 12: of a simulation, of which an iteration has many steps."""
    return "step" in (rate.unit or "".join(rate.name)) and "step" not in "".join(counted)


def _is_vague(numbers: Sequence[Number], place: Meant) -> bool:
    """Whether a number is just called a time, and no mean stands behind it in parentheses."""
    if place.field.meaning != "seconds" or numbers[place.number].name not in _VAGUE:
        return False
    behind = numbers[place.number + 1 : place.number + 2]
    return not any(one.bracket == "(" and not one.name for one in behind)


def _is_whole(number: Number) -> bool:
    """`1,024`, and `9.0` as bars print it."""
    digits = number.text.replace(",", "").removesuffix(".0")
    return digits.isdecimal() and len(number.text) <= 15 and not has_decimal_comma(number.text)


def _is_counted(number: Number, is_certain: bool) -> bool:
    """`batch: 32` may be a size, `batch: 3/10` is a place."""
    return number.name[-1:] != ("batch",) or is_certain or number.total > 0


def _in_brackets(numbers: Sequence[Number], epoch: int, line: str) -> tuple[int, int]:
    """Places of epoch and step that have no names.

    As in `Epoch: [0][  10/5005]`, `Train: [0/300][10/1251]`, `Train: 0 [  50/1251 (  4%)]`,
    `Training  [  10/1250]`, `200/ 2983 batches`, and in Keras' `100/938 [====>`.
    """
    for place, one in enumerate(numbers):
        if not one.total or not _is_whole(one):
            continue
        before, behind = place - 1, numbers[place + 1 : place + 2]
        if one.bracket == "[":
            is_behind = before >= 0 and not one.name and _is_whole(numbers[before])
            if is_behind and (before == epoch or numbers[before].name[-1:] in _TRAINING):
                return before, place
            is_epoch = any(other.bracket == "[" and other.total for other in behind)
            if one.name[-1:] in _TRAINING and not is_epoch:
                return epoch, place
        is_first = before < 0 and not line[: one.start].strip()
        is_keras = is_first and _KERAS.match(line, one.end)
        if not one.name and (is_keras or _COUNTED.match(line, one.end)):
            return epoch, place
    return epoch, -1


class General:
    """One log. `name` is that of the program whose names it uses, if it is known."""

    hints: tuple[str, ...] = (
        *("step", "Step", "STEP", "iter", "Iter", "poch", "loss", "Loss", "LOSS"),
        *("/s", "per_s", "atch", "update", "lr", "TPS"),
    )

    def __init__(self, form: Form | None = None) -> None:
        """`form`: of the lines to read, whose step has no name."""
        self._form = form
        if form:
            self.hints = ("",)
        self._dialect = OWN
        self._length = 0
        self._first_epoch = 1  # or 0
        self._epochs: defaultdict[int | None, Epochs] = defaultdict(Epochs)
        self._epoch_above: dict[int | None, int] = {}
        self._above: dict[int | None, Above] = {}
        self._above_name: tuple[str, ...] = ()  # of the step above
        self._above_is_used = False
        self._last = 0  # step
        self._pair = 0, 0  # the last `12/100`
        self._has_pairs = False  # of epoch and step
        self._batch = 0  # 0 if the log does not say it
        self._lines: Counter[int | None] = Counter()  # of samples
        self._table: Table | None = None

    @property
    def name(self) -> str:
        return self._dialect.name

    def narrow(self, lines: Sequence[str]) -> None:
        """One hint, if all lines that said something have it."""
        common = [hint for hint in self.hints if hint and all(hint in line for line in lines)]
        if not self._table and common and lines and not self._above_is_used:
            self.hints = (max(common, key=len),)

    def places(self, line: str) -> Sequence[Place]:
        """A line of named numbers that says its step and a speed."""
        line = line.lower()
        if self._table or self._has_pairs or self._dialect.of_samples or self._form:
            return ()
        numbers, stamp = numbers_of(line)
        found = find(line, numbers, self._dialect, self._above_name)
        is_whole = found.is_clear and found.is_timed and not found.others and found.length_at < 0
        if not is_whole or found.is_other or found.is_rounded or found.step < 0:
            return ()
        if found.is_of_epoch and _OF_SAMPLES.search(line):
            return ()
        step = numbers[found.step]
        places = [Place("step", step.start)]
        if found.epoch >= 0:
            name = "of_epoch" if found.is_of_epoch else "epoch"
            places.append(Place(name, numbers[found.epoch].start))
        if found.length:
            total = re.compile(" ?/ *").match(line, step.start + len(step.text))
            start = total.end() if total else 0
            places += [Place("length", start), Place("same", start)]
        for at, unit, field in found.values:
            text = numbers[at].text
            is_decimal = has_decimal_comma(text) or ("," in text and field.meaning in _DECIMAL)
            if ":" in text or is_decimal or (field.meaning in _CONVERTED[:2] and not unit):
                return ()
            groups = 1 + text.count(",")
            place = Place(field.meaning, numbers[at].start, field.scale, field.is_inverse, groups)
            places.append(place)
        spans = [stamp, *((one.start, one.end) for one in numbers)]
        return places + [
            Place("same", digits.start())
            for digits in _DIGITS.finditer(line)
            if not any(start <= digits.start() < end for start, end in spans)
        ]

    def finish(self, rows: Rows) -> Rows | None:
        values = rows.values
        is_small = min(values.get("memory_gib", [math.inf])) * 1024 < _IN_MIB
        shares = [*values.get("printed_mfu", ()), *values.get("printed_hfu", ())]
        if self._has_pairs or is_small or min(shares, default=0) < 0:
            return None
        steps = [step + self._dialect.from_zero for step in rows.steps]
        of_epoch = values.pop("of_epoch", None)
        epochs, lengths = of_epoch or values.pop("epoch", None), values.pop("length", [0])
        if of_epoch and 0 < lengths[0] < max(rows.steps):
            return None  # one of the lines is damaged
        if epochs or self._epoch_above:
            unknown = itertools.repeat(None)
            steps = [
                self._step_of(step, epoch, int(lengths[0]), of_epoch is not None, rank)
                for step, epoch, rank in zip(
                    steps,
                    map(int, epochs) if epochs else unknown,
                    rows.ranks or unknown,
                    strict=False,
                )
            ]
        self._last = steps[-1]
        return rows._replace(steps=steps)

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        line = line.lower()
        if self._dialect is OWN:
            self._dialect = next((one for one in DIALECTS if one.mark.search(line)), OWN)
        if self._form:
            yield from self._read_form(self._form, line, rank)
            return
        if self._table and (row := self._table.named(line)):
            line = row
        elif table := table_of(line):
            self._table, self.hints = table, ("",)  # its rows have no names
        if _FAIRSEQ.search(line):
            return
        if options := _BATCH.match(line):
            self._batch = int(options[1])
        samples = self._batch if self._dialect.of_samples else 1  # of a step
        if not samples or (self._dialect.of_samples and not self._dialect.mark.search(line)):
            return
        numbers, _ = numbers_of(line)
        found = find(line, numbers, self._dialect, self._above_name)
        texts = [one.text for one in numbers]
        yield from self._learn_pairs(found, texts)
        if found.is_rounded or (found.is_of_epoch and _OF_SAMPLES.search(line)):
            yield from self._counted(values_of(found.values, texts), rank)
            return
        if found.step < 0:
            if found.epoch >= 0 and not found.values:
                self._epoch_above[rank] = int(texts[found.epoch].replace(",", ""))
            yield from self._goes_on(line, found, texts, rank)
            return
        if found.is_of_epoch and 0 < found.length < _whole(texts[found.step]):
            raise ValueError("a step behind the last one of its epoch")
        values, validation = values_of(found.values, texts), values_of(found.others, texts)
        if "loss" in validation and "loss" not in values:
            values.pop("line_seconds", None)  # how long the validation took
        is_step = found.is_timed or "loss" in values or "line_seconds" in values
        is_head = is_step or not line[numbers[-1].end :].strip(_BEHIND_HEAD)
        if not (is_head or found.is_other or "loss" in validation):
            self._above.pop(rank, None)
            return
        number = self._step_of(
            _whole(texts[found.step]) // samples + self._dialect.from_zero,
            _whole(texts[found.epoch]) if found.epoch >= 0 else None,
            found.length,
            found.is_of_epoch,
            rank,
        )
        if "loss" in validation:
            yield Event("validation", number, validation["loss"])
        if found.is_other:
            self._above.pop(rank, None)
            return
        self._last = number
        if "seconds" in values:
            values["seconds"] *= samples
        time = None if found.is_timed else stamp_of(line)
        if is_head:
            self._above[rank] = Above(number, None if is_step else time)
            self._above_name = numbers[found.step].name
        else:
            self._above.pop(rank, None)
        if not is_step:
            return
        if time is not None:
            values["time"] = time
        yield Window(number, values, None, rank)
        if self._has_pairs:
            return
        length = found.length or _whole(texts[found.length_at] if found.length_at >= 0 else "")
        if length > 0 and length != self._length and found.epoch < 0 and not self._epochs:
            self._length = length
            yield Event("length", value=length)

    def _read_form(self, form: Form, line: str, rank: int | None) -> Iterable[Window | Event]:
        """A line whose step has no name, by the place of its step."""
        span = form.step_in(line)
        if not span:
            return
        numbers = _without_step(numbers_of(line)[0], span[0])
        found = find(line, numbers, self._dialect)
        texts = [one.text for one in numbers]
        values = values_of(found.values, texts)
        if "loss" in (validation := values_of(found.others, texts)):
            yield Event("validation", None, validation["loss"])
        if form.is_epoch:
            yield from self._counted(values, rank)
            return
        if not found.is_timed and (time := stamp_of(line)) is not None:
            values["time"] = time
        yield Window(_whole(line[slice(*span)].lstrip("-")), values, None, rank)

    def _counted(self, values: dict[Quantity, float], rank: int | None) -> Iterable[Window | Event]:
        """A line that counts samples, of which a step has an unknown number, or rounds its step."""
        values.pop("elapsed", None)
        if not values.keys() & {"loss", *_RATES}:
            return
        if not self._lines:
            yield Event("lines")
        self._lines[rank] = 1 + max(self._lines[rank], self._last)
        yield Window(self._lines[rank], values, None, rank)

    def _learn_pairs(self, found: Found, texts: Sequence[str]) -> Iterable[Event]:
        """`batch 0/100`, then `batch 0/200`: the first number is the epoch, the second the step."""
        if found.length and found.epoch < 0 and not self._has_pairs:
            before, self._pair = self._pair, (_whole(texts[found.step]), found.length)
            if self._pair[0] == before[0] and 0 < before[1] < found.length:
                self._has_pairs = True
                yield Event("length")

    def _step_of(
        self, number: int, epoch: int | None, length: int, is_of_epoch: bool, rank: int | None
    ) -> int:
        """The step since the start of the training. `length`: that the line says, or 0."""
        if self._has_pairs and length:
            return self._epochs[rank].step(number, length, 0)
        epoch = self._epoch_above.get(rank) if epoch is None else epoch
        if epoch is None:
            return number
        if is_of_epoch and length:
            self._first_epoch = min(self._first_epoch, epoch)
            return (epoch - self._first_epoch) * length + number
        return self._epochs[rank].step(epoch, number, length)

    def _goes_on(
        self, line: str, found: Found, texts: Sequence[str], rank: int | None
    ) -> Iterable[Window]:
        """What an indented line says of the step above, or one with the time of a step."""
        above = self._above.get(rank, Above(0, None, _MOST_LINES))
        is_other = BAR in line or _OTHER_LINE.search(line)
        is_time = any(
            one.field.meaning == "seconds" and one.field.rank < BY_UNIT for one in found.values
        )
        if not (line[:1].isspace() or is_time) or above.lines >= _MOST_LINES or is_other:
            return
        self._above_is_used = True
        values = values_of(found.values, texts)
        if values and above.time is not None:
            values["time"] = above.time
        time = None if values else above.time
        self._above[rank] = Above(above.step, time, above.lines + 1)
        if values:
            yield Window(above.step, values, None, rank)


def _without_step(numbers: Sequence[Number], start: int) -> list[Number]:
    """The numbers without the step at `start`.

    Of `loss 60 8.46`, the name in front of the step belongs to the number after it.
    """
    name: tuple[str, ...] = ()
    found = []
    for one in numbers:
        if one.start == start:
            name = one.name
        else:
            found.append(one._replace(name=one.name or name))
            name = ()
    return found


def _whole(text: str) -> int:
    return int(text.replace(",", "").removesuffix(".0")) if text else 0


def values_of(places: Iterable[Meant], texts: Sequence[str]) -> dict[Quantity, float]:
    """The values of a line.

    `loss 3,41`, as some languages write it, makes all commas decimal, so that `16,011` beside it
    can be either, and is left out; in `tokens/s 16,011` alone, a comma groups digits.
    """
    is_decimal = any(
        has_decimal_comma(text) or (field.meaning in _DECIMAL and "," in text)
        for text, field in ((texts[one.number], one.field) for one in places)
    )
    values: dict[Quantity, float] = {}
    for number, unit, field in places:
        if is_decimal and field.meaning not in _DECIMAL and is_either(texts[number]):
            continue
        value = value_of(texts[number], is_decimal) * field.scale
        meaning = cast("Quantity", field.meaning)
        if field.is_inverse:
            value = 1 / value if value else 0.0
        elif meaning in ("printed_mfu", "printed_hfu"):
            if not unit and 1 < value < _LEAST_PERCENT:
                continue  # a share that cannot be, or a few percent
            value = 0.0 if value < 0 else value / 100 if value > 1 and not unit else value
        elif meaning == "memory_gib" and not unit and value * 1024 < _IN_MIB:
            continue
        values[meaning] = value
    return values


format_of_log = General
