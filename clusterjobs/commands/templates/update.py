"""clusterjobs templates update: merges the changes of a new version of clusterjobs into overrides.

The old text and its base stay until a merge is complete: a merge that was interrupted, or that has
conflicts, can be begun again.
"""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Iterator

import click

from clusterjobs import resources
from clusterjobs.commands.diff import echo_diff
from clusterjobs.commands.files import read_text, shown_path
from clusterjobs.commands.templates.check import chosen_site, site_option
from clusterjobs.commands.templates.header import Header, Origin
from clusterjobs.commands.templates.overrides import (
    Override,
    block_name,
    overrides_in,
    packaged_origin,
    packaged_text,
    remove_file,
    write_file,
)
from clusterjobs.errors import InputError, Location, Problem, did_you_mean, one_problem
from clusterjobs.render.site.merge import Names, marker_problems, merge

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
