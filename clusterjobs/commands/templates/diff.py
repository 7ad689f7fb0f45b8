"""clusterjobs templates diff: the site's blocks against the packaged ones."""

from __future__ import annotations

import difflib
import pathlib
import re
from collections.abc import Iterator

import click

from clusterjobs import resources
from clusterjobs.commands.diff import echo_diff
from clusterjobs.commands.templates.check import chosen_site, site_option
from clusterjobs.commands.templates.header import split_header
from clusterjobs.commands.templates.overrides import (
    Override,
    overrides_in,
    packaged_origin,
    packaged_text,
    template_named,
)
from clusterjobs.errors import InputError

_EXAMPLES = """\b
Examples:
  clusterjobs templates diff
  clusterjobs templates diff launch
"""


@click.command(epilog=_EXAMPLES, short_help="Show what the site's templates change.")
@click.argument("block", required=False)
@site_option
def diff(block: str | None, site: pathlib.Path | None) -> None:
    """Show what the site's blocks, or BLOCK alone, change in the packaged ones."""
    wanted = template_named(block) if block else None
    folders = chosen_site(site)
    found = [
        one
        for one in overrides_in(folders)
        if one.name in resources.template_texts() and wanted in (None, one.name)
    ]
    for one in found:
        lines = list(difference(one))
        echo_diff(lines)
        if not lines:
            click.echo(f"{one.file}: the same as the packaged text")
    if not found:
        click.echo(f"no site folder overrides {block or 'a block'}")


def difference(override: Override) -> Iterator[str]:
    """From the packaged text to the override's, as a unified diff."""
    packaged = packaged_text(override.name)
    return difflib.unified_diff(
        packaged.splitlines(),
        _in_full(override, packaged).splitlines(),
        f"{override.name} (clusterjobs {packaged_origin(override.name).version})",
        override.file,
        lineterm="",
    )


def _in_full(override: Override, packaged: str) -> str:
    """The override without its header, and with the packaged block in the place of its include."""
    text = override.text
    try:
        _, body = split_header(text, override.file, override.name)
    except InputError:  # `templates update` reports it
        body = text
    include = rf"""(?m)^\{{% include ["']packaged/{re.escape(override.name)}["'] %\}}\n"""
    return re.sub(include, lambda _: packaged, body)
