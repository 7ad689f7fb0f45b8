"""clusterjobs diff: what a render would change."""

from __future__ import annotations

import difflib
import pathlib
from typing import TYPE_CHECKING, cast

import click

from clusterjobs.api import load
from clusterjobs.console import (
    echo_diff,
    json_option,
    output_option,
    print_json,
    set_option,
    spec_argument,
)
from clusterjobs.runs.write import changed_files
from clusterjobs.sections.render import MANIFEST

if TYPE_CHECKING:
    from clusterjobs.runs.answers import Change, DiffAnswer, FileDiff

_EXAMPLES = """\b
Examples:
  clusterjobs diff exp.yaml
  clusterjobs diff exp.yaml --set nodes=4
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@output_option
@set_option
@json_option
def diff(
    spec: pathlib.Path, output: pathlib.Path, settings: tuple[str, ...], as_json: bool
) -> None:
    """Show, as a diff, what `render` would change in the output folder; write nothing."""
    outputs = load(spec, set=settings).outputs()
    changes = changed_files(output, outputs)
    diffs = {name: _diff(output / name, outputs.get(name, "")) for name in changes}
    if as_json:
        print_json(_answer(output, changes, diffs))
        return
    for lines in diffs.values():
        echo_diff(lines)
    if not changes:
        click.echo(f"{output}: nothing would change")


def _diff(path: pathlib.Path, new: str) -> list[str]:
    if path.name == MANIFEST:  # it changes with every other file
        return []
    old = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    sides = (str(path) if old else "/dev/null", str(path) if new else "/dev/null")
    return [*difflib.unified_diff(old.splitlines(), new.splitlines(), *sides, lineterm="")]


def _answer(
    output: pathlib.Path, changes: dict[str, str], diffs: dict[str, list[str]]
) -> DiffAnswer:
    files: list[FileDiff] = [
        {"name": name, "change": cast("Change", change), "diff": "\n".join(diffs[name])}
        for name, change in changes.items()
    ]
    return {"folder": str(output), "files": files}
