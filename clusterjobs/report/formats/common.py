"""Lines of programs that print in their own way, as many do: `step 12 loss 3.4 samples/s 51.2`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.records import Event, Quantity, Window

_STEP = re.compile(
    r"(?i)\b(?:global[ _]?step|step|iteration|iter)s?\b[\"']?[ =:/#]+(?P<step>\d{1,15})(?!\d)"
)
_NUMBER = r"[\"']?[ =:]+[\"']?(-?\d[\d.,]{0,40}(?:e[-+]?\d{1,4})?|nan|-?inf)"
_END = r"(?![\d.]*[\w%])"  # not a part of a longer number or word
_VALUES: tuple[tuple[Quantity, re.Pattern[str], float], ...] = (
    ("loss", re.compile(r"(?i)\b(?:train[ _])?loss" + _NUMBER + _END), 1.0),
    ("samples_per_second", re.compile(r"(?i)\bsamples/s(?:ec)?" + _NUMBER + _END), 1.0),
    ("tokens_per_second", re.compile(r"(?i)\btokens/s(?:ec)?" + _NUMBER + _END), 1.0),
    ("learning_rate", re.compile(r"(?i)\b(?:lr|learning[ _]rate)" + _NUMBER + _END), 1.0),
    ("grad_norm", re.compile(r"(?i)\bgrad(?:ient)?[ _]?norm" + _NUMBER + _END), 1.0),
    ("memory_gib", re.compile(r"(?i)\bpeak[ _]memory" + _NUMBER + r" ?GiB\b"), 1.0),
    ("seconds", re.compile(r"(?i)\b(?:step|iteration)[ _]time" + _NUMBER + r" ?s\b"), 1.0),
    ("seconds", re.compile(r"(?i)\b(?:step|iteration)[ _]time" + _NUMBER + r" ?ms\b"), 1e-3),
)


_RATES = ("samples_per_second", "tokens_per_second")


class Common:
    """The last resort: a step and at least one value in a line."""

    name = "own script"
    hints = ("step", "Step", "iter", "Iter")

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:
        step = _STEP.search(line)
        if not step:
            return ()
        behind = step.end()  # a progress bar in front has values of an earlier step
        texts = [
            (name, found[1].rstrip(".,"), unit)
            for name, pattern, unit in _VALUES
            if (found := pattern.search(line, behind) or pattern.search(line))
        ]
        # `loss 3,41`, as some languages write it; in `tokens/s 16,011`, a comma groups digits.
        is_decimal = any("," in text and name not in _RATES for name, text, _ in texts)
        values = {
            name: float(text.replace(",", "." if is_decimal else "")) * unit
            for name, text, unit in texts
        }
        return (Window(int(step["step"]), values, None, rank),) if values else ()


def format_of_log() -> Common:
    """A new object for one log."""
    return Common()
