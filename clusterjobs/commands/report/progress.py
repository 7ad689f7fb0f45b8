"""Progress on a terminal while long logs are read."""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from clusterjobs.commands.report.targets import Target

_LONG = 256 << 20  # bytes; a shorter log is read in about a second


def progress_for(target: Target) -> Callable[[int], None]:
    """Gets the bytes that were read so far; prints nothing for a short log, or into a file."""
    size = target.log.stat().st_size if target.log and target.log.is_file() else 0
    if size < _LONG or not sys.stderr.isatty():
        return lambda _: None

    def show(read: int) -> None:
        done = read >= size
        text = f"reading {read / 1e9:.1f} of {size / 1e9:.1f} GB"
        click.echo(f"\r{'' if done else text:<40}\r" if done else f"\r{text}", nl=False, err=True)

    return show
