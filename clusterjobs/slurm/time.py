"""Times as Slurm writes them: `90` (minutes), `12:00:00`, `2-00:00:00`.

It knows the forms; it must not know what such a time limits, or who has written it.
"""

from __future__ import annotations

import re

_ENDLESS = ("UNLIMITED", "INFINITE")
# Slurm keeps minutes in 32 bits, and Python refuses to read numbers of thousands of digits.
_TIME = re.compile(r"\d{1,9}-\d{1,9}(?::\d{1,9}){0,2}|\d{1,9}(?::\d{1,9}){0,2}", re.ASCII)


def is_slurm_time(text: str) -> bool:
    """Whether it is one of Slurm's forms, or a word for no limit."""
    return text in _ENDLESS or bool(_TIME.fullmatch(text))


def seconds_of(text: str) -> int | None:
    """Slurm's time as seconds; None where it is no limit, or no time.

    Source: sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
    days-hours:minutes, days-hours:minutes:seconds. slurm.conf(5), MaxTime, has the same.
    """
    if not _TIME.fullmatch(text):
        return None
    days, dash, rest = text.rpartition("-")
    numbers = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)


def slurm_time(seconds: int) -> str:
    """`12:00:00`, `2-00:00:00`: an unambiguous form."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    clock = f"{hour:02}:{minute:02}:{second:02}"
    return f"{days}-{clock}" if days else clock


_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def in_words(seconds: int) -> str:
    """`1 day 12 hours`."""
    words = []
    for name, length in _UNITS:
        count, seconds = divmod(seconds, length)
        if count:
            words.append(f"{count} {name}{'' if count == 1 else 's'}")
    return " ".join(words)
