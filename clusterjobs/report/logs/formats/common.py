"""Lines of programs that print in their own way, as many do: `step 12 loss 3.4 samples/s 51.2`.

Rates may stand before or behind their names (`51.2 samples/s`), the same for all in a line.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from clusterjobs.report.logs.records import Event, Quantity, Window

# All patterns are for a line in small letters.
_STEP = re.compile(
    r"(?<!max )(?<!total )(?<!warmup )"
    r"\b(?:global[ _]?step|step|iteration|iter)s?\b[\"']?[ =:/#\[]+(?P<step>\d{1,15})(?!\d)"
    r"(?: ?/ ?(?P<steps>\d{1,15})(?![\d.]))?"
)
_EPOCH = re.compile(r"\bepochs?\b[\"']?[ =:/#\[(]{0,9}(\d{1,9})(?!\d)")
_MOST_EPOCHS = 1000  # that are remembered
_DIGITS = r"\d[\d.,]{0,40}(?:e[-+]?\d{1,4})?"
_NUMBER = rf"[\"']?[ =:]+[\"']?(-?{_DIGITS}|nan|-?inf)"
_END = r"(?![\d.]*[\w%])"  # not a part of a longer number or word
_OTHER = r"(?:val|valid|validation|eval|evaluation|test|dev)"
_OTHER_LOSS = re.compile(rf"\b{_OTHER}[ _/]loss{_NUMBER}{_END}")
_OTHER_LINE = re.compile(rf"(?<![\w/.]){_OTHER}(?![\w/.])")
_NOT_OTHER = r"(?<!val[ /])(?<!valid[ /])(?<!validation[ /])(?<!test[ /])(?<!dev[ /])"
# A line is searched for a pattern if it has the literal.
_VALUES: tuple[tuple[Quantity, str, re.Pattern[str], float], ...] = (
    ("loss", "loss", re.compile(rf"{_NOT_OTHER}\b(?:train[ _])?loss{_NUMBER}{_END}"), 1.0),
    ("learning_rate", "lr", re.compile(rf"\blr{_NUMBER}{_END}"), 1.0),
    ("learning_rate", "learning", re.compile(rf"\blearning[ _]rate{_NUMBER}{_END}"), 1.0),
    ("grad_norm", "norm", re.compile(rf"\bgrad(?:ient)?[ _]?norm{_NUMBER}{_END}"), 1.0),
    ("memory_gib", "peak", re.compile(rf"\bpeak[ _]memory{_NUMBER} ?gib\b"), 1.0),
    ("seconds", "time", re.compile(rf"\b(?:step|iter(?:ation)?)[ _]time{_NUMBER} ?s\b"), 1.0),
    ("seconds", "time", re.compile(rf"\b(?:step|iter(?:ation)?)[ _]time{_NUMBER} ?ms\b"), 1e-3),
    ("seconds", ", time ", re.compile(rf", time{_NUMBER} ?ms\b"), 1e-3),  # as nanoGPT prints it
)
_RATE = re.compile(
    rf"(?:(?P<front>{_DIGITS}) ?)?\b(?P<what>samples|images|img|tokens|tok)(?:/| per |_per_)"
    rf"s(?:ec(?:ond)?)?\b(?P<each>/(?:gpu|device|rank)\b)?(?P<behind>(?={_NUMBER}{_END}))?"
)
_RATES: dict[bool, Quantity] = {True: "tokens_per_second", False: "samples_per_second"}
_RATES_OF_ONE: dict[bool, Quantity] = {
    True: "tokens_per_second_per_gpu",
    False: "samples_per_second_per_gpu",
}


class _Epochs:
    """Steps since the start, of one rank whose lines may count them from the start of an epoch.

    They do if the step falls back where the epoch goes up.
    """

    def __init__(self) -> None:
        self._before: dict[int, int] = {}  # epoch -> steps before it
        self._epoch = 0
        self._step = self._gap = 0  # the last one in the log, and its distance to the one before

    def step(self, epoch: int, step: int, length: int) -> int:
        """`length`: of an epoch, 0 if the line does not say it."""
        if epoch not in self._before:
            before = self._before.get(self._epoch, 0)
            if step <= self._step and epoch > self._epoch:
                own = length * (epoch - self._epoch) if length else self._step + self._gap - step
                before += own
            self._before[epoch] = before
            if len(self._before) > _MOST_EPOCHS:
                del self._before[next(iter(self._before))]
        elif epoch == self._epoch and step > self._step:
            self._gap = step - self._step
        self._epoch, self._step = epoch, step
        return self._before[epoch] + step


class Common:
    """The last resort: a step and at least one value in a line."""

    name = "own script"
    hints = ("step", "Step", "iter", "Iter", "STEP")

    def __init__(self) -> None:
        self._length = 0
        self._epochs: defaultdict[int | None, _Epochs] = defaultdict(_Epochs)

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        line = line.lower()
        step = _STEP.search(line)
        if not step:
            return
        number, length = int(step["step"]), int(step["steps"] or 0)
        if epoch := _EPOCH.search(line) if "epoch" in line else None:
            number = self._epochs[rank].step(int(epoch[1]), number, length)
        if "loss" in line and (other := _OTHER_LOSS.search(line)):
            yield Event("validation", number, _value(other[1], _is_decimal(other[1])))
        if _OTHER_LINE.search(line, 0, step.start()):
            return
        # A progress bar in front of the step has values of an earlier one: those behind it count.
        texts: dict[Quantity, tuple[str, float]] = {}
        for name, literal, pattern, unit in _VALUES:
            if literal in line and name not in texts:
                found = pattern.search(line, step.end()) or pattern.search(line)
                if found:
                    texts[name] = found[1], unit
        # `loss 3,41`, as some languages write it; in `tokens/s 16,011`, a comma groups digits.
        is_decimal = any(_is_decimal(text) for text, _ in texts.values())
        values = {
            name: _value(text, is_decimal) * unit
            for name, (text, unit) in (*texts.items(), *_rates(line).items())
        }
        if values:
            yield Window(number, values, None, rank)
            if length not in (0, self._length) and not epoch:
                self._length = length
                yield Event("length", value=length)


def _rates(line: str) -> dict[Quantity, tuple[str, float]]:
    """Texts of rates. The last one says whether numbers stand behind their names."""
    found = list(_RATE.finditer(line)) if "/s" in line or "per" in line else []
    texts: dict[Quantity, tuple[str, float]] = {}
    for one in found:
        text = one[5] if found[-1]["behind"] is not None else one["front"]
        if text:
            names = _RATES_OF_ONE if one["each"] else _RATES
            texts.setdefault(names[one["what"].startswith("tok")], (text, 1.0))
    return texts


def _is_decimal(text: str) -> bool:
    return "," in text.rstrip(".,")


def _value(text: str, is_decimal: bool) -> float:
    return float(text.rstrip(".,").replace(",", "." if is_decimal else ""))


format_of_log = Common
