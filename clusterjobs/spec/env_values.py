"""The values under `env:`, and those that set a reserved variable on purpose:
`CUDA_VISIBLE_DEVICES: {value: "0,1", force: true, reason: one rank uses two GPUs}`.

It knows how they are written; which names may be forced is in `reserved_names.py`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, PlainValidator

from clusterjobs.spec import field_types
from clusterjobs.spec.reserved_names import FORCEABLE, environment_name

_EXAMPLE = '{value: "0,1", force: true, reason: why}'


class Forced(str):
    """The value of a reserved variable that the spec sets all the same, and why."""

    __slots__ = ("reason",)
    reason: str

    def __new__(cls, value: str, reason: str) -> Forced:
        """A text, so that other modules need not know that it is forced."""
        found = super().__new__(cls, value)
        found.reason = reason
        return found


class SiteValue(str):
    """The value of a variable that the cluster sets for its jobs, and why."""

    __slots__ = ("reason",)
    reason: str

    def __new__(cls, value: str, reason: str) -> SiteValue:
        """A text, as the values of a spec."""
        found = super().__new__(cls, value)
        found.reason = reason
        return found


def _value(value: Any) -> str:
    if not isinstance(value, dict):
        return field_types.scalar_text(value)
    if unknown := sorted(map(str, value.keys() - {"value", "force", "reason"})):
        raise ValueError(f"unknown key {unknown[0]}: write {_EXAMPLE}")
    if value.get("force") is not True:
        raise ValueError("expected text, or a value that is forced: write " + _EXAMPLE)
    for key in ("value", "reason"):
        if value.get(key) in (None, ""):
            raise ValueError(f"{key} is missing: write {_EXAMPLE}")
    reason = field_types.plain(value["reason"])
    if bad := field_types.first_control_character(reason):
        raise ValueError(f"the reason contains {bad}: write it in one line")
    return Forced(field_types.scalar_text(value["value"]), reason)


def _name(value: str) -> str:
    """Names that may be forced pass: the plan refuses them if they are not."""
    return value if value in FORCEABLE else environment_name(value)


EnvName = Annotated[str, AfterValidator(_name)]
EnvValue = Annotated[str, PlainValidator(_value)]
