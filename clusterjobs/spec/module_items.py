"""The items of `software.modules`: names to load, and other commands of `module`.

It knows which commands an item may be; it must not know how the script runs them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from clusterjobs.spec.field_types import plain

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
