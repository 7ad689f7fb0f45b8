"""clusterjobs templates update: merges the changes of a new version of clusterjobs into overrides.

The old text and its base stay until a merge is complete: a merge that was interrupted, or that has
conflicts, can be begun again.
"""

import difflib
import pathlib
import re
from collections.abc import Iterator

import click

from clusterjobs import resources
from clusterjobs.admin.templates.check import chosen_site, site_option
from clusterjobs.admin.templates.overrides import (
    Header,
    Origin,
    Override,
    block_name,
    folder_to_write,
    overrides_in,
    packaged_origin,
    packaged_text,
    remove_file,
    split_header,
    template_named,
    write_file,
)
from clusterjobs.console import echo_diff
from clusterjobs.errors import InputError, Location, Problem, did_you_mean, one_problem
from clusterjobs.script.site import INSERTION_POINTS, PACKAGED
from clusterjobs.script.site.merge import Names, marker_problems, merge
from clusterjobs.sites.folders import read_text, shown_path

_EXAMPLES = """\b
Examples:
  clusterjobs templates update --dry-run
  clusterjobs templates update --site ./site
"""


@click.command(epilog=_EXAMPLES, short_help="Merge what a new version of clusterjobs has changed.")
@click.option("--dry-run", is_flag=True, help="Show it, and write nothing.")
@site_option
def update(dry_run: bool, site: pathlib.Path | None) -> None:
    """Merge what this version of clusterjobs has changed into the site's overrides.

    Shows for each override what has changed in the packaged block since it was made, and the
    merge. Lines that both have changed are marked in the file: choose, remove the markers, and run
    it again. The text before the merge is kept as FILE.orig until then. Exit code 1 for conflicts.
    """
    found = list(overrides_in(chosen_site(site)))
    problems: list[Problem] = []
    for one in found:
        try:
            problems += _update(one, dry_run)
        except InputError as error:
            problems += error.problems
    if not found:
        click.echo("no site folder overrides a block")
    if problems:
        raise InputError(problems)


def _update(override: Override, dry_run: bool) -> list[Problem]:
    """Show and merge what has changed. The problems: a place for each conflict that is left."""
    _check_name(override)
    header, body = override.split()
    if problems := marker_problems(override.text, override.file):
        return problems
    if header.merging:
        header = _resolve(override, header, body, dry_run)
    now = packaged_origin(override.name)
    if header.packaged.sha256 == now.sha256:
        _say(override, f"unchanged since clusterjobs {header.packaged.version}")
        return []
    base = override.base(header.packaged)
    _say(override, f"{override.name} has changed since clusterjobs {header.packaged.version}:")
    versions = [f"{override.name} ({one.version})" for one in (header.packaged, now)]
    echo_diff(_difference(base, packaged_text(override.name), *versions))
    if override.is_extension(body):
        if not dry_run:
            _renew(override, header, now, body)
        _say(override, "it has lines around that block alone: nothing to merge")
        return []
    return _merge(override, header, base, body, dry_run)


def _check_name(override: Override) -> None:
    known = resources.template_texts()
    if override.name not in known:
        raise one_problem(
            f"clusterjobs has no block {block_name(override.name)} to override",
            Location(override.file, 1, 1),
            hint=did_you_mean(block_name(override.name), [block_name(name) for name in known]),
        )


def _merge(
    override: Override, header: Header, base: str, body: str, dry_run: bool
) -> list[Problem]:
    now = packaged_origin(override.name)
    names = Names("yours", f"clusterjobs {header.packaged.version}", f"clusterjobs {now.version}")
    merged = merge(base, body, packaged_text(override.name), names)
    _say(override, "merged into yours:" if not merged.conflicts else "merged with conflicts:")
    echo_diff(_difference(body, merged.text, override.file, f"{override.file} (merged)"))
    if merged.conflicts:
        header = header._replace(merging=now)
        if not dry_run:
            _keep_original(override)
            override.write(header, merged.text)
        return marker_problems(f"{header}{merged.text}", override.file)
    if not dry_run:
        _renew(override, header, now, merged.text)
    return []


def _resolve(override: Override, header: Header, body: str, dry_run: bool) -> Header:
    """The header after a merge whose conflicts a person has resolved."""
    assert header.merging
    override.base(header.merging)  # the next update needs it
    _say(override, f"its conflicts with clusterjobs {header.merging.version} are resolved")
    if not dry_run:
        _renew(override, header, header.merging, body)
    return Header(header.name, header.merging)


def _renew(override: Override, header: Header, now: Origin, body: str) -> None:
    """Write the override with a header that names `now`, and remove what only the merge needed."""
    override.write(Header(header.name, now), body)
    for path in (override.base_path(header.packaged), override.original):
        if path != override.base_path(now):
            remove_file(path)


def _keep_original(override: Override) -> None:
    original, text = override.original, override.text
    if original.exists() and read_text(original) != text:
        raise one_problem(
            f"{shown_path(original)} exists already: a merge with conflicts would overwrite it",
            hint="move it away, or remove it if nothing in it is needed",
        )
    write_file(original, text)


def _difference(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    return difflib.unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="")


def _say(override: Override, what: str) -> None:
    click.echo(f"{override.file}: {what}")


# ------------------------------------------------------------------ diff
# clusterjobs templates diff: the site's blocks against the packaged ones.


_DIFF_EXAMPLES = """\b
Examples:
  clusterjobs templates diff
  clusterjobs templates diff launch
"""


@click.command(epilog=_DIFF_EXAMPLES, short_help="Show what the site's templates change.")
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
    """The unified diff from the packaged text to the override's."""
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


# ------------------------------------------------------------------ override
# clusterjobs templates override: a first text for a block of the site's own.


_OVERRIDE_EXAMPLES = """\b
Examples:
  clusterjobs templates override launch            a copy, to be changed
  clusterjobs templates override launch --extend   lines before or after the packaged block
  clusterjobs templates override --insert before_launch
"""


@click.command(
    epilog=_OVERRIDE_EXAMPLES, short_help="Copy a template into the site folder to change it."
)
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
