"""What the job's own script and its programs write: `clusterjobs: ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.logs.records import Event, Window

_START = "clusterjobs: "
_ATTEMPT = re.compile(r"attempt (\d{1,9}), from checkpoint ")
_END = re.compile(r"job \S+ ended with exit code (\d{1,3}) after (\d{1,9}) s: (.+)")
_PREFLIGHT = re.compile(r"preflight passed on .* in ([\d.]{1,12}) s$")
_STAGING = re.compile(r"staging took (\d{1,9}) s$")


class JobScript:
    """Events alone: it knows no steps. `requeued` does not end an attempt, `job ... ended` does."""

    name = "job script"
    hints: tuple[str, ...] = (_START,)

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        if rank is not None or not line.startswith(_START):
            return ()  # a program may print such a text, too
        text = line[len(_START) :]
        if found := _ATTEMPT.match(text):
            return (Event("attempt", value=int(found[1])),)
        if found := _END.fullmatch(text):
            settings = {"reason": found[3], "exit_code": found[1]}
            return (Event("end", value=int(found[2]), settings=settings),)
        if found := _PREFLIGHT.match(text):
            return (Event("preflight", value=float(found[1])),)
        if found := _STAGING.match(text):
            return (Event("staging", value=int(found[1])),)
        return ()
