"""Where the messages of a submission go: to the terminal, or to the log of a program that uses the
Python API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import click

from clusterjobs.console.show import printable, show_problems
from clusterjobs.errors import Problem

Say = Callable[[str], None]


def say_on_stderr(message: str) -> None:
    """Print a line; control characters in it are shown as text."""
    click.echo(printable(message), err=True)


class Messages(NamedTuple):
    """`say` gets a line, `show` the warnings of a run."""

    say: Say = say_on_stderr
    show: Callable[[Iterable[Problem]], None] = show_problems


TERMINAL = Messages()
