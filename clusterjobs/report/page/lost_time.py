"""Where the paid time of a run went, as rows with bars.

It knows the parts of lost time and what they mean; it must not know HTML.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.report.run import LostTime, Run
from clusterjobs.report.tables import duration, number, share

# Each with what a reader should know of it.
NAMES: dict[LostTime, tuple[str, str]] = {
    "queue": ("Queue", "waiting for nodes, which costs nothing"),
    "staging": ("Staging", "copying data to the nodes"),
    "preflight": ("Preflight", "checks of the nodes"),
    "starting": ("Starting", "start and end of the first attempt"),
    "restart": ("Restarting", "start and end of later attempts"),
    "warm_up": ("Warm-up", "slower steps at the start of an attempt"),
    "data_wait": ("Waiting for data", "steps that waited for their data"),
    "saving": ("Saving", "checkpoints"),
    "validation": ("Validation", ""),
    "repeated": ("Repeated steps", "run again from an older checkpoint"),
    "skipped": ("Skipped steps", "they changed no weights"),
    "stalled": ("Stalled", "attempts that the watchdog ended"),
    "slow": ("Slow steps", "slower than the steady state"),
}


class Bar(NamedTuple):
    """`width`: percent of the paid time, for a drawing. `kind`: useful, lost or free."""

    name: str
    meaning: str
    time: str
    share: str
    width: str
    kind: str


def bars(run: Run) -> list[Bar]:
    """The useful time, then what was lost, the longest first; the queue last, since it is free."""
    paid = run.paid_seconds
    if not paid:
        return []
    found = []
    if run.goodput is not None:
        found.append(_bar("Useful", "steps that were kept", run.goodput * paid, paid, "useful"))
    lost = sorted(run.lost_seconds.items(), key=lambda item: (-item[1], item[0]))
    for part, seconds in lost:
        if seconds > 0 and part != "queue":
            found.append(_bar(*NAMES[part], seconds, paid, "lost"))
    if queue := run.lost_seconds.get("queue"):
        found.append(_bar(*NAMES["queue"], queue, paid, "free"))
    return found


def _bar(name: str, meaning: str, seconds: float, paid: float, kind: str) -> Bar:
    part = seconds / paid
    shown = "not paid" if kind == "free" else share(part)
    width = number(100 * min(1.0, max(0.0, part)), 3)
    return Bar(name, meaning, duration(seconds), shown, width, kind)
