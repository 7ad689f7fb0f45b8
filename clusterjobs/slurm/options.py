"""Options of sbatch and srun, with whether they take a value, and times as Slurm writes them.

The data is in `slurm_options.json`, with its date and source.
"""

import functools
import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from clusterjobs.text import Value

DATA_FILE = pathlib.Path(__file__).with_name("slurm_options.json")

OLDEST = "22.05"  # version that jobs were tried with: KnownOptions.oldest, without reading the file

Program = Literal["sbatch", "srun"]


class KnownOptions(NamedTuple):
    """The options of one program, in any version from `oldest` to `newest`, and those of pyxis.

    `takes_value`: long name -> "required", "optional" or "none". `short`: letter -> long name.
    `only_in`: long name -> the versions that have it, of `versions`, if others have not.
    """

    takes_value: Mapping[str, str]
    short: Mapping[str, str]
    only_in: Mapping[str, tuple[str, ...]]
    versions: tuple[str, ...]

    @property
    def oldest(self) -> str:
        return self.versions[0]

    @property
    def newest(self) -> str:
        return self.versions[-1]

    def lacks(self, version: str, has: tuple[str, ...]) -> bool:
        """Whether Slurm `version`, "25.11.8", probably lacks what the versions `has` take.

        Few versions were asked. It is so if `has` has neither the last one asked up to this
        version nor the first one from it on.
        """
        wanted = _number(version)
        before = [one for one in self.versions if _number(one) <= wanted][-1:]
        after = [one for one in self.versions if _number(one) >= wanted][:1]
        return not {*before, *after} & {*has}


def is_untried(version: str) -> bool:
    """Whether it is older than every version that jobs were tried with."""
    return _number(version) < _number(OLDEST)


def _number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@functools.cache
def known_options(program: Program) -> KnownOptions:
    """The options of sbatch or srun."""
    data: dict[str, Any] = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    own = data[program]
    kinds = {name: kind for kind in ("required", "optional", "none") for name in own[kind]}
    only_in = {
        name: tuple(versions.split())
        for versions, names in own["only_in"].items()
        for name in names
    }
    return KnownOptions(kinds, own["short"], only_in, tuple(data["versions"]))


class Directive(NamedTuple):
    """One sbatch or srun option: `value` True is a bare flag."""

    name: str
    value: Value | int | bool
    reason: str


# ------------------------------------------------------------------ time
# Times as Slurm writes them: `90` (minutes), `12:00:00`, `2-00:00:00`.


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
