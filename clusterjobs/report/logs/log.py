"""Reads the log of a job in one pass: its windows and events, and the format they are in."""

import gc
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from clusterjobs.report.logs.bounds import MOST_STEPS, Bounds
from clusterjobs.report.logs.clock import span
from clusterjobs.report.logs.formats import (
    FastFormat,
    Format,
    HoldingFormat,
    NarrowFormat,
    all_formats,
)
from clusterjobs.report.logs.formats.deepspeed import Checkpoints
from clusterjobs.report.logs.formats.job_script import JobScript
from clusterjobs.report.logs.forms import Forms, Rows
from clusterjobs.report.logs.general.reader import BAR, General
from clusterjobs.report.logs.general.table import HEAD
from clusterjobs.report.logs.general.unnamed import form_with_step
from clusterjobs.report.logs.lines import (
    Found,
    Line,
    LineFinder,
    RankTimes,
    clean_lines,
    frequent_lines,
)
from clusterjobs.report.logs.records import Event, Log, Window
from clusterjobs.report.logs.thinning import Thinned

_SAMPLE = 200  # windows after which the formats of a log are known
_SAMPLE_BYTES = 32 << 20
_START = 1 << 18  # bytes in which unknown lines are counted
_NEAR = 8  # records before, among which the step of a further line is searched for
_RECENT = 1000  # records that are not thinned yet
_CLOCKS = frozenset(("time", "elapsed"))  # say less than any speed of a format before
_VALUE = re.compile(r"(?i)(?:loss|time|per_sec|/s(?:ec)?)\W{1,4}\d")
_STARTS = ("attempt", "resumed", "end")  # events after which a step is done again
_SILENT = 256  # windows of other ranks after which a rank counts as gone


def read_log(blocks: Iterable[bytes], formats: Sequence[Format] | None = None) -> Log:
    """All that the log says. `formats`: those to look for, the most certain first."""
    reader = LogReader(all_formats() if formats is None else formats)
    was_enabled = gc.isenabled()
    gc.disable()  # no record has a cycle, and looking for some in all of them takes a tenth
    try:
        for block in blocks:
            reader.feed(block)
    finally:
        if was_enabled:
            gc.enable()
    return reader.log()


def with_unnamed_steps(log: Log, blocks: Callable[[], Iterable[bytes]]) -> Log:
    """A log without a step, read again with what its start shows to be one.

    It stays as it is if there is no such number. `blocks`: of the log, from its start.
    """
    form = form_with_step(log.start)
    again = read_log(blocks(), [General(form)]) if form else log
    return again._replace(assumed=form.line) if form and again.format else log


class LogReader:
    def __init__(self, formats: Sequence[Format]) -> None:
        self._formats = list(formats)
        self._others: list[Format] = [JobScript(), Checkpoints()]  # events of any framework
        self._readers = [*self._others, *formats]
        self._holding = [form for form in formats if isinstance(form, HoldingFormat)]
        self._is_chosen = False
        self._fast: FastFormat | None = None  # the only one that finds steps
        self._finder = LineFinder(_hints(self._readers))
        self._number = 0  # of the line that is read
        self._forms = Forms()
        self._thinned = Thinned()
        self._bounds = Bounds()
        self._first = self._last = b""  # the lines of the first and the last step
        self._found: list[Window | Event] = []  # the last ones
        self._sample: list[tuple[Format, Window | Event, bytes]] = []
        self._start = bytearray()  # of the log, for the message that no step was found
        self._dropped = 0
        self._unused = self._unused_line = 0
        self._resumed: tuple[int | None, int | None] = None, None  # the last load: step and rank
        self._ranks = RankTimes()
        # Whose lines count, of each kind of line: some may be labelled, and others not.
        self._printers: defaultdict[tuple[Format, tuple[str, int]], _Printer] = defaultdict(
            _Printer
        )
        self._near: Window | None = None  # of a further format, for the next step of the first one
        self._guessed: frozenset[str] = frozenset()  # values of the last step that are of `_near`

    def feed(self, block: bytes) -> None:
        """Read the next block; the line that is cut off at its end waits for its rest."""
        if len(self._start) < _START:
            self._start += block[:_START]
            whole = self._start.rfind(b"\n") + 1
            if not self._is_chosen and HEAD.search(self._start, 0, whole):
                self._finder.hints = [b""]  # rows of a table have no names
        found, place = self._finder.lines(block), 0
        while place < len(found.lines):
            if self._fast and (done := self._read_rows(self._fast, found, place)):
                place += done
                continue
            self._read_line(found, place)
            place += 1

    def _read_rows(self, fast: FastFormat, found: Found, place: int) -> int:
        """How many lines from this one on were read, since all are of forms that are known."""
        known = self._forms.at(found.forms, place)
        if known is None:
            return 0
        form, length, count = known
        end = place + length * count
        rows = form.read(found.texts[place:end], count)
        is_usual = rows is not None and (
            rows.are_of_one_rank()
            and rows.is_rising()
            and self._bounds.are_inside(rows.values)
            and {one.rank for one in self._printers.values()} <= {rows.ranks and rows.ranks[0]}
        )
        if rows is None:
            self._forms.forget(found.forms[place : place + length])
        if rows is None or (length > 1 and not is_usual) or not (rows := fast.finish(rows)):
            for one in range(place, end):
                self._read_line(found, one)
            return end - place
        self._last = found.lines[end - 1]
        numbers = found.numbers[place:end:length]
        is_usual = is_usual and rows.is_rising() and self._bounds.are_inside(rows.values)
        alone = rows.part(0, 1) if is_usual else rows
        for window, number in zip(alone.windows(), numbers, strict=False):
            self._add(fast, self._bounds.checked(window, number))
        if is_usual:
            self._extend_rows(rows.part(1))
        return end - place

    def _extend_rows(self, rows: Rows) -> None:
        """Of a long log without labels, only the last ones become windows before a merge."""
        near = 0 if rows.ranks else max(0, len(rows.steps) - _NEAR)
        last = rows.part(near).windows()
        for window in last:
            self._ranks.add(window)
        for window in last[-1:]:
            self._bounds.checked(window, self._number)  # remembers its time
        if self._thinned.is_merging and near:
            self._thinned.add(self._found)
            self._thinned.add_rows(rows.part(0, near))
            self._found = [*last]
        else:
            self._extend([*rows.part(0, near).windows(), *last])

    def _read_line(self, found: Found, place: int) -> None:
        raw, key = found.lines[place], found.forms[place]
        if not any(hint in raw for hint in found.hints):
            return
        self._number = found.numbers[place]
        lines = clean_lines(raw)
        records = [record for line in lines for record in self._read(line, raw)]
        is_one = len(lines) == len(records) == 1 and _is_step(records[0])
        if self._fast and is_one and self._forms.wants(key):
            text = lines[0].text
            self._forms.learn(key, found.texts[place], text, self._fast.places(text))

    def log(self) -> Log:
        """What was read so far; the line that is still being written is left out."""
        if not self._is_chosen:
            self._choose()
        name = self._formats[0].name if self._formats else ""
        finder = self._finder
        unknown = () if name else frequent_lines(bytes(self._start))
        return Log(
            name,
            (*self._thinned.records(), *self._found, *self._held(self._formats[:1])),
            finder.count,
            finder.size,
            self._dropped,
            unknown,
            self._ranks.slow(),
            self._bounds.found(),
            span(self._first, self._last),
            self._unused,
            self._unused_line,
            b"" if name else bytes(self._start),
        )

    def _read(self, line: Line, raw: bytes) -> list[Window | Event]:
        has_found, dropped = False, self._dropped
        found: list[Window | Event] = []
        for form in self._readers:
            if any(hint in line.text for hint in form.hints):
                records = [
                    one for one in self._records(form, line) if not self._is_known(one, line.rank)
                ]
                has_found = has_found or bool(records) or form in self._holding
                found += records
                for record in records:
                    if isinstance(record, Event) and record.kind in _STARTS:
                        self._release(raw)
                    self._take(form, record, raw)
        if any(isinstance(one, Window) for one in found):
            self._dropped = dropped  # of the formats that it was tried as, it is one
        if not has_found and BAR not in line.text and _VALUE.search(line.text):
            self._unused += 1
            self._unused_line = self._unused_line or self._number
        if not self._is_chosen and (
            len(self._sample) >= _SAMPLE or self._finder.size >= _SAMPLE_BYTES
        ):
            self._choose()
        return found

    def _take(self, form: Format, record: Window | Event, raw: bytes) -> None:
        if not self._is_chosen:
            self._sample.append((form, record, raw))
            return
        self._last = raw if isinstance(record, Window) else self._last
        self._add(form, record)

    def _held(self, formats: Iterable[Format]) -> list[Window | Event]:
        """What these formats still hold back."""
        number = self._number
        return [
            self._bounds.checked(one, number) if isinstance(one, Window) else one
            for form in self._holding
            if form in formats
            for one in form.held()
            if isinstance(one, Window) or form is self._formats[0]
        ]

    def _release(self, raw: bytes) -> None:
        """Another attempt starts: what is held back belongs to the one before."""
        for form in self._holding:
            if form in self._formats:
                for record in self._held([form]):
                    self._take(form, record, raw)
                form.drop_held()

    def _records(self, form: Format, line: Line) -> Sequence[Window | Event]:
        try:
            records = tuple(form.read(line.text, line.rank))
        except (ValueError, ArithmeticError):
            self._dropped += 1
            return ()
        number = self._number
        for record in records:
            if isinstance(record, Window) and not 0 <= record.step < MOST_STEPS:
                self._bounds.name("step", str(record.step), number)
                return ()
        return tuple(
            self._bounds.checked(one, number) if isinstance(one, Window) else one for one in records
        )

    def _is_known(self, record: Window | Event, rank: int | None) -> bool:
        """Whether another rank has said that this checkpoint was loaded."""
        if isinstance(record, Window):
            return False
        if record.kind in ("attempt", "end"):
            self._resumed = None, None
        if record.kind != "resumed":
            return False
        step, first = self._resumed
        if record.step == step and rank != first:
            return True
        self._resumed = record.step, rank
        return False

    def _choose(self) -> None:
        """Keep the formats that have found steps; the first of them says which steps there are."""
        sample, self._sample, self._is_chosen = self._sample, [], True
        held = [(form, one, b"") for form in self._formats for one in self._held([form])]
        self._formats = _needed(self._formats, [*sample, *held])
        self._readers = [*self._others, *self._formats]
        for form in self._formats:
            if isinstance(form, NarrowFormat):
                form.narrow(
                    [raw.decode(errors="replace") for other, _, raw in sample if other is form]
                )
        self._finder.hints = [hint.encode() for hint in _hints(self._readers)]
        if len(self._formats) == 1 and isinstance(self._formats[0], FastFormat):
            self._fast = self._formats[0]
        lines = [raw for form, one, raw in sample if form in self._formats and _is_step(one)]
        self._first, self._last = (lines[0], lines[-1]) if lines else (b"", b"")
        for form, record, _ in sample:
            is_needed = form in self._formats
            if is_needed or (isinstance(record, Event) and record.kind != "length"):
                self._add(form, record)

    def _add(self, form: Format, record: Window | Event) -> None:
        if isinstance(record, Window):
            self._ranks.add(record)
            kind = next(iter(record.values), ""), len(record.values)
            if not self._printers[form, kind].prints(record):
                self._raise_memory(record)
                return
            if self._completes(form, record):
                return
            record = self._with_near(record)
        elif record.kind in _STARTS:
            self._near = None
        self._extend([record])

    def _extend(self, records: Sequence[Window | Event]) -> None:
        while records:
            room = _RECENT + 1 - len(self._found)
            self._found += records[:room]
            records = records[room:]
            if len(self._found) > _RECENT:
                self._thinned.add(self._found[:-_NEAR])
                del self._found[:-_NEAR]

    def _completes(self, form: Format, further: Window) -> bool:
        """Whether it says more about a step that is known, and nothing about another one.

        A further line of the first format adds what the last step does not have yet: of ranks
        without labels that all print a step, the first one counts. The other formats add to the
        last steps, and have no steps of their own.
        """
        is_first = form is self._formats[0]
        last = self._found[-1] if self._found else None
        if is_first and isinstance(last, Window) and last.step != further.step:
            return False  # as nearly always
        is_last = True
        for place in self._last_places():
            known = self._found[place]
            if not isinstance(known, Window):
                if is_first and known.kind in _STARTS:
                    return False
                continue
            if known.step == further.step:
                certain = {name: known.values[name] for name in known.values.keys() - self._guessed}
                self._guessed = frozenset()
                values = {**known.values, **further.values, **certain}
                if "memory_gib" in further.values and "memory_gib" in known.values:
                    values["memory_gib"] = max(one.values["memory_gib"] for one in (known, further))
                self._found[place] = known._replace(values=values)
                self._near = None if is_last else further  # or it starts again
                return True
            if is_first:
                return False
            is_last = False
        if not is_first:
            self._near = further
        return not is_first

    def _last_places(self) -> range:
        return range(len(self._found) - 1, max(-1, len(self._found) - _NEAR), -1)

    def _with_near(self, window: Window) -> Window:
        """The window with what the program itself has printed since the step before.

        It may count from 0, print before the framework does, or print other steps.
        """
        near, self._near = self._near, None
        self._guessed = frozenset()
        if near is None:
            return window
        before = next((one.step for one in reversed(self._found) if isinstance(one, Window)), 0)
        before = before if before < window.step else 0  # it starts again
        if not before <= near.step <= window.step:
            return window
        self._guessed = frozenset(near.values.keys() - window.values.keys())
        return window._replace(values={**near.values, **window.values})

    def _raise_memory(self, other: Window) -> None:
        """The memory of a step is that of the rank that uses the most."""
        if "memory_gib" not in other.values:
            return
        for place in self._last_places():
            known = self._found[place]
            if isinstance(known, Window):
                memory = max(other.values["memory_gib"], known.values.get("memory_gib", 0.0))
                self._found[place] = known._replace(values={**known.values, "memory_gib": memory})
                return


class _Printer:
    """The rank whose lines of one format count, since each rank may print each step."""

    rank: int | None = None
    _has_windows = False
    _others = 0  # windows of other ranks since the last one of `_rank`

    def prints(self, window: Window) -> bool:
        """Whether the window is of that rank."""
        if window.rank == self.rank:
            self._others = 0
            return True
        self._others += 1
        if self._has_windows and self._others <= _SILENT:
            return False
        self.rank, self._others, self._has_windows = window.rank, 0, True
        return True


def _is_step(record: Window | Event) -> bool:
    return isinstance(record, Window)


def _needed(
    formats: Iterable[Format], sample: Iterable[tuple[Format, Window | Event, bytes]]
) -> list[Format]:
    """The formats with steps; of those behind the first, the ones with further values."""
    windows = [(form, one) for form, one, _ in sample if isinstance(one, Window)]
    needed: list[Format] = []
    known: set[str] = set()
    for form in formats:
        values = {name for other, one in windows if other is form for name in one.values}
        own = values - _CLOCKS
        if own - known or (not needed and "elapsed" in values):
            needed.append(form)
            known |= own
    return needed


def _hints(formats: Iterable[Format]) -> list[str]:
    return sorted({hint for form in formats for hint in form.hints})
