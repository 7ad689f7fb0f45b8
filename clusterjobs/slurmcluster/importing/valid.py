"""Which values a description accepts: names of Slurm that it refuses are left out of an import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clusterjobs.slurm_time import seconds_of, slurm_time
from clusterjobs.slurmcluster import value_types


def is_name(text: str) -> bool:
    """Whether it can be the name of a partition, GRES type, account or QOS."""
    return _accepts(value_types.name, text)


def is_feature(text: str) -> bool:
    return _accepts(value_types.feature, text)


def is_folder(text: str) -> bool:
    return text.startswith("/") and _accepts(value_types.folder, text)


def is_version(text: str) -> bool:
    return _accepts(value_types.version, text)


def max_time(text: str) -> str:
    """Slurm's time limit as a description writes it; "" for one that it cannot have."""
    if text.upper() in ("INFINITE", "UNLIMITED", "-1"):
        return "UNLIMITED"
    seconds = seconds_of(text) if _accepts(value_types.max_time, text) else None
    return slurm_time(seconds) if seconds else ""


def _accepts(check: Callable[[Any], object], text: str) -> bool:
    try:
        check(text)
    except ValueError:
        return False
    return True
