"""Numbers of seconds in a spec: a time with a unit is refused with the number to write instead."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from clusterjobs.slurm_time import seconds_of
from clusterjobs.spec.field_types import Count

_WITH_UNIT = re.compile(
    r"([0-9]{1,6}) ?(?:(s)(?:ec(?:ond)?s?)?|(m)(?:in(?:ute)?s?)?|(h)(?:ours?|rs?)?|(d)(?:ays?)?)",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _refuse_units(value: Any) -> Any:
    """`30m` and `00:30:00` are not read: elsewhere `30` means minutes to Slurm, here seconds."""
    if isinstance(value, str) and (seconds := _seconds_in(value.strip())) is not None:
        raise ValueError(f"{value!r} is not a number of seconds: write {seconds}")
    return value


def _seconds_in(text: str) -> int | None:
    if found := _WITH_UNIT.fullmatch(text):
        return int(found[1]) * _SECONDS[found[found.lastindex or 2].lower()]
    return seconds_of(text) if ":" in text else None


Seconds = Annotated[Count, BeforeValidator(_refuse_units)]
