"""Time stamps in the lines of a log, such as `2026-11-02 10:15:30,250`.

Their time zone is unknown, which does not matter for differences.
"""

import re
from datetime import datetime

_STAMP = re.compile(
    r"\b(?P<day>\d{4}[-/]\d\d[-/]\d\d)[T _](?P<time>\d\d:\d\d:\d\d)(?P<fraction>[.,]\d{1,9})?"
)
_START = 400  # bytes of a line in which its stamp stands


def stamp_of(text: str) -> float | None:
    """Seconds since 1970 of the first time stamp of a line; None without one."""
    if not (found := _STAMP.search(text)):
        return None
    day = found["day"].replace("/", "-")
    try:
        seconds = datetime.fromisoformat(f"{day}T{found['time']}+00:00").timestamp()
    except ValueError:
        return None  # no such day
    fraction = found["fraction"]
    return seconds + float(f"0.{fraction[1:]}" if fraction else 0)


def span(first: bytes, last: bytes) -> float | None:
    """Seconds between two lines; None if one of them has no time stamp, or they go backwards."""
    begin, end = (stamp_of(line[:_START].decode(errors="replace")) for line in (first, last))
    return end - begin if begin is not None and end is not None and end >= begin else None
