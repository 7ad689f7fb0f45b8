"""Progress bars of tqdm: how far a training is, and how fast.

    Epoch 0:  12%|#2        | 12/100 [00:05<00:40,  2.20it/s, v_num=0, train_loss=2.310]
    120it [00:10, 11.52it/s, loss=2.31]

A bar shows whole seconds, and a speed that is smoothed in several ways. So a speed is what passed
between two states that are far enough apart; windows wait for it.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from clusterjobs.report.logs.general.names import OWN
from clusterjobs.report.logs.general.numbers import numbers_of
from clusterjobs.report.logs.general.reader import find, values_of
from clusterjobs.report.logs.records import Event, Quantity, Window

HINTS = ("%|", "it/s", "s/it")
_CERTAIN = 0.04  # of the time between two states: the error of a speed
_DRAWN = 1.5  # times a usual step: so late the next state is drawn at most
_MOST_WAITING = 5000  # windows
_BAR = re.compile(
    r"(?:%\|[^|\[\]]{0,500}\| *(?P<done>\d{1,15})/(?P<total>\d{1,15})"
    r"|\|[^|\[\]]{0,500}\| *(?P<open>\d{1,15})/\?"  # Lightning's, behind its total, too
    r"|(?<![\w./])(?P<only>\d{1,15})[a-z]{1,9})"
    r" \[(?P<elapsed>(?:\d{1,4}:)?\d{1,2}:\d\d)(?:<[^][,]{0,20})?, +[^][,]{0,40}"
    r"(?P<rest>[^][]{0,2000})\]"
)
_PERCENT = re.compile(r" *\d{1,3}$")  # between the title and `%|`
_EPOCH = re.compile(r"(?:\b(?:Train )?Epoch +|\bepoch[ =:]+)(#?)(\d{1,9})(?:/\d{1,9})?\b", re.I)
_OF_EPOCHS = re.compile(r"\W*(?:training )?epochs?\W*", re.I)  # the whole title
_TRAINING = re.compile(r"\b(?:train(?:ing)?|epochs?|steps?|iter(?:ation)?s?|updates?)\b", re.I)
_OTHER = re.compile(r"\b(?:val(?:id(?:ation|ating)?)?|eval(?:uat\w+)?|test(?:ing)?|predict)", re.I)


class Bar(NamedTuple):
    """A state. `seconds` since the bar began; `total` 0 if there is none.

    `title` and `rest`: what the program shows in front of the bar, and behind the speed.
    `is_open`: Lightning's `12/?`.
    """

    done: int
    total: int
    seconds: int
    title: str
    rest: str
    is_open: bool = False


def bars_of(line: str) -> Iterator[Bar]:
    """The states of bars in a line."""
    before = 0
    for found in _BAR.finditer(line) if "/s" in line or "s/" in line else ():
        done, total, no_total, only, elapsed, rest = found.groups()
        seconds = 0
        for part in elapsed.split(":"):
            seconds = 60 * seconds + int(part)
        title = line[before : found.start()][-200:]
        title = _PERCENT.sub("", title) if done else title
        before = found.end()
        yield Bar(
            int(done or no_total or only), int(total or 0), seconds, title, rest, bool(no_total)
        )


class Clock:
    """The speed of one bar, from its states.

    A state that shows 7 s was drawn between 7 and 8 s. Where states are drawn often, the first that
    shows 7 s was drawn shortly behind 7 s: then a few seconds are enough for a speed.
    """

    def __init__(self) -> None:
        self._base: tuple[int, float, float] | None = None  # steps, earliest and latest time
        self._last: tuple[int, float, float] | None = None

    @property
    def start(self) -> int:
        """The state that the next speed counts from."""
        return self._base[0] if self._base else 0

    def see(self, bar: Bar, is_needed: bool = True) -> float | None:
        """The time of a step since the speed before; None until it is certain.

        If it is not needed now, the next one counts from the same state.
        """
        last, base = self._last, self._base
        if last is None or base is None or bar.done < last[0] or bar.seconds < int(last[1]):
            self._base = self._last = bar.done, float(bar.seconds), bar.seconds + 1.0
            return None
        done = bar.done - base[0]
        step = (bar.seconds + 1.0 - base[1]) / done if done else 1.0
        latest = min(bar.seconds + 1.0, last[2] + _DRAWN * step * (bar.done - last[0] or 1))
        earliest = max(float(bar.seconds), last[1])
        self._last = now = bar.done, earliest, max(earliest, latest)
        passed = (now[1] + now[2] - base[1] - base[2]) / 2
        error = (now[2] - now[1] + base[2] - base[1]) / 2
        if not is_needed or not done or error > _CERTAIN * passed:
            return None
        self._base = now
        return passed / done


class Speeds:
    """The time of a step along one bar, of each part that is long enough for one."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._ends: list[int] = []
        self._seconds: list[float] = []

    def see(self, bar: Bar) -> None:
        if self._ends and bar.done < self._ends[-1]:
            self._ends, self._seconds = [], []
        if seconds := self._clock.see(bar):
            self._ends.append(bar.done)
            self._seconds.append(seconds)

    def at(self, step: int) -> float | None:
        place = bisect.bisect_left(self._ends, step)
        return self._seconds[place] if place < len(self._ends) else None


class Waiting:
    """Windows whose speed is not certain yet, each with the state of the bar."""

    def __init__(self) -> None:
        self._windows: list[tuple[int, Window]] = []
        self._clock = Clock()

    def add(self, done: int, window: Window) -> None:
        self._windows.append((done, window))

    def see(self, bar: Bar, least: int = 1) -> list[Window]:
        """The windows up to a state, at least so many, once their speed is certain."""
        start = self._clock.start
        seconds = self._clock.see(bar, len(self._windows) >= least)
        if seconds is None:
            return self.leave() if len(self._windows) > _MOST_WAITING else []
        found = [
            one.with_values({**one.values, "seconds": seconds}) if done > start else one
            for done, one in self._windows
        ]
        self._windows = []
        return found

    def begin(self) -> list[Window]:
        """Another bar begins: the windows so far, without a speed."""
        self._clock = Clock()
        return self.leave()

    def held(self) -> list[Window]:
        return [one for _, one in self._windows]

    def leave(self) -> list[Window]:
        found, self._windows = self.held(), []
        return found


class _Series:
    """The bars of one rank, epoch after epoch. `state`: the last one, as it was drawn first."""

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.epoch: int | None = None
        self.before = 0  # steps of the epochs before
        self.state: Bar | None = None
        self.window: Window | None = None  # of the last state, which may be drawn again
        self.has_waited = False  # for a validation since then
        self.epochs: int | None = None  # that a bar around this one counts
        self.unplaced: list[Window] = []  # whose epoch only the next bar says

    def is_inside(self, bar: Bar) -> bool:
        """Whether this bar counts the epochs, each of which has a bar of its own."""
        state = self.state
        return (
            state is not None
            and _OF_EPOCHS.fullmatch(bar.title) is not None
            and _OF_EPOCHS.fullmatch(state.title) is None
        )

    def is_resumed(self) -> bool:
        """Whether Lightning goes on inside an epoch, with a bar that does not say which one."""
        return self.state is not None and self.state.is_open and self.epoch is None

    def leave_state(self) -> Iterator[Window]:
        """The next state is drawn: what is certain of the windows so far."""
        if self.state and self.window:
            self.waiting.add(self.state.done, self.window)
            yield from _timed(self.waiting.see(self.state))
        self.state = self.window = None


class Bars:
    """One log of a program that shows a bar: Lightning, Horovod's ImageNet example, plain tqdm.

    Of a state that is drawn twice, the second one counts: the first has values of an earlier one.
    A bar without a loss is one of the training if its title says so. It counts batches: with
    accumulation these are more than steps.
    """

    name = "progress bar"
    hints = HINTS

    def __init__(self) -> None:
        self._series: dict[int | None, _Series] = {}

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        for bar in bars_of(line):
            if _OTHER.search(bar.title):
                if rank in self._series:
                    self._series[rank].has_waited = True
                continue
            values = _values(f"{bar.title} {bar.rest}")
            is_training = "loss" in values or _TRAINING.search(bar.title)
            if not is_training or not bar.done:
                continue
            series = self._series.setdefault(rank, _Series())
            if series.is_inside(bar):
                series.epochs = bar.done
                continue
            was_resumed = series.is_resumed()
            found = [*self._take(series, bar, values, rank)]
            if was_resumed:
                series.unplaced += found
                found = []
            if series.unplaced and series.epoch and bar.total:
                before = (series.epoch - 1) * bar.total
                found = [one._replace(step=one.step + before) for one in series.unplaced]
                series.unplaced = []
            yield from found

    def held(self) -> list[Window | Event]:
        """What waits for a speed, or for being drawn again."""
        found: list[Window | Event] = []
        for series in self._series.values():
            waiting = [*_timed(series.waiting.held()), *filter(None, [series.window])]
            if series.is_resumed() and (series.unplaced or waiting):
                found.append(Event("lines"))
            found += [*series.unplaced, *waiting]
        return found

    def drop_held(self) -> None:
        self._series.clear()

    def _take(
        self, series: _Series, bar: Bar, values: Mapping[Quantity, float], rank: int | None
    ) -> Iterator[Window]:
        found = _EPOCH.search(bar.title)
        if found and found[1]:
            self.name = "horovod"
        elif found and ("v_num" in bar.rest or "train_loss" in bar.rest):
            self.name = "lightning"
        last = series.state
        epoch = int(found[2]) - bool(found[1]) if found else series.epochs
        if last is None:
            series.before = (epoch or 0) * bar.total
        elif bar.done != last.done or epoch != series.epoch:
            yield from series.leave_state()
            if series.has_waited:
                yield from _timed(series.waiting.begin())
                series.has_waited = False
            if bar.done < last.done or epoch != series.epoch:
                yield from _timed(series.waiting.begin())
                follows = epoch is None or series.epoch is None or epoch == series.epoch + 1
                is_whole = last.done == last.total or (epoch is not None and not last.total)
                if follows and is_whole and not (last.is_open and series.epoch is None):
                    series.before += last.done  # the next one may be shorter
                else:
                    series.before = (epoch or 0) * bar.total
        if series.state is None:
            series.state = bar
        series.epoch = epoch
        series.window = Window(series.before + bar.done, values, None, rank)


def _timed(windows: Iterable[Window]) -> Iterator[Window]:
    """The windows that have values."""
    return (one for one in windows if one.values)


def _values(text: str) -> dict[Quantity, float]:
    """The values that a program shows beside its bar."""
    text = text.lower()
    numbers = numbers_of(text)[0]
    texts = [one.text for one in numbers]
    return {
        name: value
        for name, value in values_of(find(text, numbers, OWN).values, texts).items()
        if name in ("loss", "learning_rate", "grad_norm")
    }


format_of_log = Bars
