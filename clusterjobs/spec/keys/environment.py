"""The values under `env:`, and those that set a reserved variable on purpose:
`CUDA_VISIBLE_DEVICES: {value: "0,1", force: true, reason: one rank uses two GPUs}`.

It knows how they are written; which names may be forced is in `reserved_names.py`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainValidator

from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import plain
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


# ------------------------------------------------------------------ module items
#
# The items of `software.modules`: names to load, and other commands of `module`.


# A command -> how many names may follow it, the rule in words, and an example.
COMMANDS: dict[str, tuple[range, str, str]] = {
    "purge": (range(1), "takes no name", "purge"),
    "--force purge": (range(1), "takes no name", "--force purge"),
    "use": (range(1, 10), "needs a folder", "use /opt/modulefiles"),
    "unload": (range(1, 10), "needs a name", "unload gcc"),
    "swap": (range(1, 3), "needs one or two names", "swap gcc/12 gcc/13"),
}
_TYPED = re.compile("(?:(?:module|ml|load) +)+")  # as in a shell
_NAME = re.compile(r"[\w@%+=,./][\w@%+=:,./~^()-]*")


def command_and_names(item: str) -> tuple[str, tuple[str, ...]]:
    """`use /a` -> ("use", ("/a",)); a name alone is loaded."""
    for command in COMMANDS:
        if item == command or item.startswith(f"{command} "):
            return command, tuple(item.removeprefix(command).split())
    return "load", (item,)


def module_item(value: Any) -> str:
    """The name of a module file, `purge`, `use FOLDER`, `unload NAME` or `swap OLD NEW`.

    Old module commands pass names to a shell unquoted.
    """
    text = plain(value)
    if typed := _TYPED.match(text):
        raise ValueError(f"not a module name: write {text[typed.end() :]}")
    command, names = command_and_names(text)
    if command in COMMANDS:
        numbers, rule, example = COMMANDS[command]
        if len(names) not in numbers:
            raise ValueError(f"{command} {rule}: for example {example}")
    if not all(map(_NAME.fullmatch, names)):
        raise ValueError("not a module name: remove spaces, quotes and other shell characters")
    return text


ModuleItem = Annotated[str, BeforeValidator(module_item)]
