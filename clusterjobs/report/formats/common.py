"""Lines of programs that print in their own way, as many do: `step 12 loss 3.4 samples/s 51.2`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.records import Event, Quantity, Window

_STEP = re.compile(
    r"(?i)\b(?:global[ _]?step|step|iteration|iter)s?\b[\"']?[ =:/#]+(?P<step>\d{1,15})"
)
_NUMBER = r"[\"']?[ =:]+[\"']?(-?\d[\d.]*(?:e[-+]?\d+)?|nan|-?inf)\b"
_VALUES: tuple[tuple[Quantity, re.Pattern[str], float], ...] = (
    ("loss", re.compile(r"(?i)\b(?:train[ _])?loss" + _NUMBER), 1.0),
    ("samples_per_second", re.compile(r"(?i)\bsamples/s(?:ec)?" + _NUMBER), 1.0),
    ("tokens_per_second", re.compile(r"(?i)\btokens/s(?:ec)?" + _NUMBER), 1.0),
    ("learning_rate", re.compile(r"(?i)\b(?:lr|learning[ _]rate)" + _NUMBER), 1.0),
    ("grad_norm", re.compile(r"(?i)\bgrad(?:ient)?[ _]?norm" + _NUMBER), 1.0),
    ("seconds", re.compile(r"(?i)\b(?:step|iteration)[ _]time" + _NUMBER + r" ?s\b"), 1.0),
    ("seconds", re.compile(r"(?i)\b(?:step|iteration)[ _]time" + _NUMBER + r" ?ms\b"), 1e-3),
)


class Common:
    """The last resort: a step and at least one value in a line."""

    name = "own"
    hints = ("step", "Step", "iter", "Iter")

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        step = _STEP.search(line)
        if not step:
            return ()
        behind = step.end()  # a progress bar in front has values of an earlier step
        values = {
            name: float(found[1]) * unit
            for name, pattern, unit in _VALUES
            if (found := pattern.search(line, behind) or pattern.search(line))
        }
        return (Window(int(step["step"]), values, None, rank),) if values else ()


def format_of_log() -> Common:
    """A new object for one log."""
    return Common()
