"""The types of what a spec runs: commands, which are never code, and lines of bash.

As in field_types.py, nothing is expanded or executed, and a ValueError says what to write instead.
"""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainValidator

from clusterjobs.spec.field_types import scalar_text
from clusterjobs.spec.references import as_text
from clusterjobs.text import Text, Value, show, split_text

_SHELL_SIGNS = re.compile(r"[|&;<>`]|\$\(")


def command(value: Any) -> tuple[Value, ...]:
    """A program with its arguments: a list, or text that is split as a shell splits it.

    Nothing in it is executed by a shell. Text with a pipe, a redirection or a substitution was
    probably meant as code, so it is refused.
    """
    if isinstance(value, list):
        words = tuple(scalar_text(item) for item in value)
    else:
        text = scalar_text(value)
        if sign := _SHELL_SIGNS.search(_without_quotes(show(text))):
            raise ValueError(
                f"{sign.group()!r} is shell code, and a command is only a program and arguments: "
                'put code under setup:, or write a list, [prog, "a;b"]'
            )
        try:
            words = tuple(split_text(text, shlex.split))
        except ValueError:
            raise ValueError("a quote is not closed: write a list, [prog, it's]") from None
    if not words or not words[0]:
        raise ValueError("the command is empty: write a program and its arguments, ./train --fast")
    _require_program(words[0])
    if key := _SHELL_FUNCTIONS.get(words[:2]) or _SHELL_FUNCTIONS.get(words[:1]):
        raise ValueError(f"{show(words[0])} is a function of a shell, not a program: write {key}")
    return words


# They would change the environment of a shell; a script has these functions only from its profile.
_SHELL_FUNCTIONS: dict[tuple[Value, ...], str] = {
    ("module",): "software: {modules: [NAME/VERSION]}",
    ("ml",): "software: {modules: [NAME/VERSION]}",
    ("conda", "activate"): "software: {conda: NAME}",
}


# Builtins that bash would run in the script's own process instead of a program of that name.
# `echo`, `printf`, `test`, `true`, `kill` and `pwd` exist as programs too, and do the same.
_BUILTINS = re.compile(
    "[.:]|alias|bg|bind|break|builtin|caller|cd|command|compgen|complete|compopt|continue|declare"
    "|dirs|disown|enable|eval|exec|exit|export|fc|fg|getopts|hash|help|history|jobs|let|local"
    "|logout|mapfile|popd|pushd|read|readarray|readonly|return|set|shift|shopt|source|suspend"
    "|times|trap|type|typeset|ulimit|umask|unalias|unset|wait"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def _require_program(program: Value) -> None:
    name = show(program)
    if _BUILTINS.fullmatch(name):
        raise ValueError(
            f"{name} is a shell builtin, not a program: put code under setup:, or write "
            '[bash, -c, "..."]'
        )
    if _ASSIGNMENT.match(name):
        raise ValueError(f"{name!r} is not a program: write [env, A=b, prog]")


def _without_quotes(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"|\\.", "", text)


_KINDS: dict[type, str] = {dict: "a mapping", list: "a list"}  # `- echo a: b` is a mapping


def lines_of_code(value: Any) -> tuple[str, ...]:
    """Lines of bash, the only code in a spec: a list of lines or one block of text."""
    lines = value if isinstance(value, list) else [value]
    for line in lines:
        if isinstance(line, Text):
            raise ValueError("code takes shell variables, not references: write $NAME")
        if not isinstance(line, str):
            found = _KINDS.get(type(line)) or as_text(line) or "nothing"
            raise ValueError(f"expected a line of bash, not {found}: quote it")
        if "\r" in line:
            raise ValueError("a carriage return in a line of bash: save the file with LF line ends")
    return tuple(text for line in lines for text in line.rstrip("\n").split("\n"))


Command = Annotated[tuple[Value, ...], PlainValidator(command)]
Code = Annotated[tuple[str, ...], BeforeValidator(lines_of_code)]
