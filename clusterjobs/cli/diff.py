"""clusterjobs diff: what a render would change."""

from __future__ import annotations

import difflib
import pathlib

import click

from clusterjobs.api import load
from clusterjobs.console import echo_diff, output_option, set_option, spec_argument
from clusterjobs.runs.write import changed_files
from clusterjobs.sections.render import MANIFEST

_EXAMPLES = """\b
Examples:
  clusterjobs diff exp.yaml
  clusterjobs diff exp.yaml --set nodes=4
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@output_option
@set_option
def diff(spec: pathlib.Path, output: pathlib.Path, settings: tuple[str, ...]) -> None:
    """Show, as a diff, what `render` would change in the output folder; write nothing."""
    outputs = load(spec, set=settings).outputs()
    changes = changed_files(output, outputs)
    for name in changes:
        if name != MANIFEST:  # it changes with every other file
            path, new = output / name, outputs.get(name, "")
            old = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            sides = (str(path) if old else "/dev/null", str(path) if new else "/dev/null")
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), *sides, lineterm="")
            echo_diff(lines)
    if not changes:
        click.echo(f"{output}: nothing would change")
