"""clusterjobs templates override: a first text for a block of the site's own."""

from __future__ import annotations

import pathlib

import click

from clusterjobs.commands.templates.check import chosen_site, site_option
from clusterjobs.commands.templates.header import Header
from clusterjobs.commands.templates.overrides import (
    Override,
    block_name,
    folder_to_write,
    packaged_origin,
    packaged_text,
    template_named,
    write_file,
)
from clusterjobs.errors import did_you_mean, one_problem
from clusterjobs.render.site.templates import INSERTION_POINTS, PACKAGED

_EXAMPLES = """\b
Examples:
  clusterjobs templates override launch            a copy, to be changed
  clusterjobs templates override launch --extend   lines before or after the packaged block
  clusterjobs templates override --insert before_launch
"""


@click.command(epilog=_EXAMPLES, short_help="Copy a template into the site folder to change it.")
@click.argument("block", required=False)
@click.option("--replace", "way", flag_value="replace", default=True, help="A copy of the block.")
@click.option("--extend", "way", flag_value="extend", help="The block, with lines around it.")
@click.option(
    "--insert", "point", metavar="POINT", help="No block: lines of bash at an insertion point."
)
@site_option
def override(block: str | None, way: str, point: str | None, site: pathlib.Path | None) -> None:
    """Write an override of BLOCK into the site folder, to be changed there.

    It records the packaged text that it was made from, so that `templates update` can merge what
    later versions of clusterjobs change. An existing file is never overwritten.
    """
    if (block is None) == (point is None):
        raise click.UsageError("name a block, or an insertion point: --insert before_launch")
    folder = folder_to_write(chosen_site(site))
    if point:
        written = _insert(folder, point)
        click.echo(f"{written.file}: write lines of bash there, then run")
    else:
        written = _override(folder, template_named(block or ""), way)
        where = "lines around the include" if way == "extend" else "your changes"
        version = packaged_origin(written.name).version
        click.echo(f"{written.file}: made from clusterjobs {version}; write {where}, then run")
    click.echo("  clusterjobs templates check")


def _override(folder: pathlib.Path, name: str, way: str) -> Override:
    wanted = Override(folder, name)
    see = f"`clusterjobs templates diff {block_name(name)}` shows what it changes"
    _refuse_existing(wanted, see)
    body = packaged_text(name) if way == "replace" else _extension(name)
    wanted.write(Header(name, packaged_origin(name)), body)
    return wanted


def _insert(folder: pathlib.Path, point: str) -> Override:
    if point not in INSERTION_POINTS:
        hint = did_you_mean(point, list(INSERTION_POINTS))
        raise one_problem(f"there is no insertion point {point}", hint=hint)
    wanted = Override(folder, f"{point}.sh")
    _refuse_existing(wanted, "its lines are printed in every job script")
    write_file(wanted.path, f"# {INSERTION_POINTS[point]}\n")
    return wanted


def _refuse_existing(wanted: Override, hint: str) -> None:
    if wanted.path.exists() or wanted.path.is_symlink():
        raise one_problem(f"{wanted.file} exists already", hint=f"edit it; {hint}")


def _extension(name: str) -> str:
    return f'{{% include "{PACKAGED}{name}" %}}\n'
