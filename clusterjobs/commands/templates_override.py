"""clusterjobs templates override: a first text for a block of the site's own."""

from __future__ import annotations

import pathlib

import click

from clusterjobs import __version__
from clusterjobs.commands.options import site_option
from clusterjobs.commands.override_header import Header
from clusterjobs.commands.overrides import (
    Override,
    block_name,
    folder_to_write,
    packaged_origin,
    packaged_text,
    template_named,
)
from clusterjobs.commands.site_folders import find_site_folders
from clusterjobs.errors import one_problem

_EXAMPLES = """\b
Examples:
  clusterjobs templates override launch            a copy, to be changed
  clusterjobs templates override launch --extend   lines before or after the packaged block
"""


@click.command(epilog=_EXAMPLES)
@click.argument("block")
@click.option("--replace", "way", flag_value="replace", default=True, help="A copy of the block.")
@click.option("--extend", "way", flag_value="extend", help="The block, with lines around it.")
@site_option
def override(block: str, way: str, site: pathlib.Path | None) -> None:
    """Write an override of BLOCK into the site folder, to be changed there.

    It records the packaged text that it was made from, so that `templates update` can merge what
    later versions of clusterjobs change. An existing file is never overwritten.
    """
    name = template_named(block)
    wanted = Override(folder_to_write(find_site_folders(), site), name)
    if wanted.path.exists() or wanted.path.is_symlink():
        raise one_problem(
            f"{wanted.file} exists already",
            hint=f"edit it; `clusterjobs templates diff {block_name(name)}` shows what it changes",
        )
    body = packaged_text(name) if way == "replace" else _extension(name)
    wanted.write(Header(name, packaged_origin(name)), body)
    click.echo(f"{wanted.file}: made from {name} of clusterjobs {__version__}; edit it, then run")
    click.echo("  clusterjobs templates check")


def _extension(name: str) -> str:
    return (
        "{## Lines above the next one come before the packaged block, lines below it after. ##}\n"
        f'{{% include "packaged/{name}" %}}\n'
    )
