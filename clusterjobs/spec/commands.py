"""What a spec lets run: a program with its words, and lines of bash where code may stand.

As in field_types.py, nothing is expanded or executed, and a ValueError says what to write instead.
"""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any

from pydantic import BeforeValidator

from clusterjobs.spec.field_types import word
from clusterjobs.spec.references import as_text, has_variable, show

_SHELL_SIGNS = re.compile(r"[|&;<>`]|\$\(")


def command_words(value: Any) -> tuple[str, ...]:
    """A command line: a list of words, or text that is split as a shell splits it.

    Nothing in it is code. Text with a pipe, a redirection or a substitution was meant as code,
    so it is refused rather than passed on as plain characters.
    """
    if isinstance(value, list):
        words = tuple(word(item) for item in value)
    else:
        text = word(value)
        if sign := _SHELL_SIGNS.search(_without_quotes(text)):
            raise ValueError(
                f"{sign.group()!r} would be shell code, and a command is only words: "
                'put code under setup:, or write a list, [prog, "a;b"]'
            )
        try:
            words = tuple(shlex.split(text))
        except ValueError:  # shlex.split names no place either
            raise ValueError(
                "a quote is opened and not closed: write a list, [prog, it's]"
            ) from None
    if not words or not words[0]:
        raise ValueError("the command is empty: write its words, ./train --fast")
    _refuse_what_is_no_program(words[0])
    return words


# What bash would do itself, in the script's own process, in place of a program of that name.
# `echo`, `printf`, `test`, `true`, `kill` and `pwd` are programs too, and do the same.
_ONLY_IN_A_SHELL = re.compile(
    "[.:]|alias|bg|bind|break|builtin|caller|cd|command|compgen|complete|compopt|continue|declare"
    "|dirs|disown|enable|eval|exec|exit|export|fc|fg|getopts|hash|help|history|jobs|let|local"
    "|logout|mapfile|popd|pushd|read|readarray|readonly|return|set|shift|shopt|source|suspend"
    "|times|trap|type|typeset|ulimit|umask|unalias|unset|wait"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def _refuse_what_is_no_program(name: str) -> None:
    if _ONLY_IN_A_SHELL.fullmatch(name):
        raise ValueError(
            f"{name} is a command of the shell, not a program: put code under setup:, or write "
            '[bash, -c, "..."]'
        )
    if _ASSIGNMENT.match(name):
        raise ValueError(f"{show(name)!r} is not a program: write [env, A=b, prog]")


def _without_quotes(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"|\\.", "", text)


def lines_of_code(value: Any) -> tuple[str, ...]:
    """Lines of bash, the only text of a spec that is code: a list of lines or one block."""
    lines = value if isinstance(value, list) else [value]
    for line in lines:
        if not isinstance(line, str):
            raise ValueError(f"a line of bash belongs here, not {as_text(line) or 'nothing'}")
        if has_variable(line):
            raise ValueError("code reads a parameter as a shell variable: write $NAME")
        if "\r" in line:
            raise ValueError("a carriage return in a line of bash: save the file with LF")
    return tuple(text for line in lines for text in line.rstrip("\n").split("\n"))


CommandWords = Annotated[tuple[str, ...], BeforeValidator(command_words)]
Code = Annotated[tuple[str, ...], BeforeValidator(lines_of_code)]
