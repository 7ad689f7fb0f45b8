"""Redraws a view until nothing in it can change any more, or Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol

import click

from clusterjobs.commands.show import printable
from clusterjobs.errors import InputError


class Watched(Protocol):
    """One look."""

    def text(self) -> str: ...
    def is_over(self) -> bool: ...


def watch(look: Callable[[], Watched], seconds: float) -> None:
    """On a terminal the view is redrawn in place; elsewhere each change is printed.

    After the first look, problems are printed and looked past: Slurm may be busy for a moment.
    """
    last, is_terminal = None, sys.stdout.isatty()
    try:
        while True:
            try:
                seen = look()
            except InputError as error:
                if last is None:
                    raise
                click.echo("; ".join(printable(one.what) for one in error.problems), err=True)
                time.sleep(seconds)
                continue
            if (text := seen.text()) != last:
                if is_terminal:
                    click.clear()
                elif last is not None:
                    click.echo()
                click.echo(text)
                last = text
            if seen.is_over():
                return
            time.sleep(seconds)
    except KeyboardInterrupt:
        return  # the last view stays
