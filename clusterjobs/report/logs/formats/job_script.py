"""What the job's own script and its programs write: `clusterjobs: ...`."""

import re
from collections.abc import Iterable

from clusterjobs.report.logs.records import Event, EventKind, Window

_START = "clusterjobs: "
_EVENTS: tuple[tuple[EventKind, re.Pattern[str]], ...] = (
    ("attempt", re.compile(r"attempt (\d{1,9}), from checkpoint ")),
    ("preflight", re.compile(r"preflight passed on .* in ([\d.]{1,12}) s$")),
    ("staging", re.compile(r"staging took (\d{1,9}) s$")),
)
_END = re.compile(r"job \S+ ended with exit code (\d{1,3}) after (\d{1,9}) s: (.+)")


class JobScript:
    """Events alone, no steps. `requeued` does not end an attempt, `job ... ended` does."""

    name = "job script"
    hints: tuple[str, ...] = (_START,)

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        if rank is not None or not line.startswith(_START):
            return ()  # a program may print such a text, too
        text = line[len(_START) :]
        for kind, pattern in _EVENTS:
            if found := pattern.match(text):
                return (Event(kind, value=float(found[1])),)
        if found := _END.fullmatch(text):
            settings = {"reason": found[3], "exit_code": found[1]}
            return (Event("end", value=int(found[2]), settings=settings),)
        return ()
