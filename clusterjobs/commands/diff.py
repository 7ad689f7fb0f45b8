"""clusterjobs diff: what a render would change."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Iterable, Iterator

import click

from clusterjobs.commands.options import output_option, set_option, spec_argument
from clusterjobs.commands.pipeline import load
from clusterjobs.commands.show import printable, styled
from clusterjobs.commands.write import changed_files
from clusterjobs.render.outputs import MANIFEST

_EXAMPLES = """\b
Examples:
  clusterjobs diff exp.yaml
  clusterjobs diff exp.yaml --set nodes=4
"""

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(epilog=_EXAMPLES)
@spec_argument
@output_option
@set_option
def diff(spec: pathlib.Path, output: pathlib.Path, settings: tuple[str, ...]) -> None:
    """Show, as a diff, what `render` would change in the output folder; write nothing."""
    outputs = load(spec, settings).outputs()
    changes = changed_files(output, outputs)
    for name in changes:
        if name != MANIFEST:  # it changes with every other file
            echo_diff(_diff(output / name, outputs.get(name, "")))
    if not changes:
        click.echo(f"{output}: nothing would change")


def echo_diff(lines: Iterable[str]) -> None:
    """Print a unified diff, in colour on a terminal."""
    for line in lines:
        click.echo(styled(printable(line), fg=_COLOURS.get(line[:1])))


def _diff(path: pathlib.Path, new: str) -> Iterator[str]:
    old = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return difflib.unified_diff(
        old.splitlines(),
        new.splitlines(),
        str(path) if old else "/dev/null",
        str(path) if new else "/dev/null",
        lineterm="",
    )
