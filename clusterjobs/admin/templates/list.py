"""clusterjobs templates list and show: the templates, where they are from, and their variables."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import click
from jinja2 import meta

from clusterjobs.admin.templates.check import chosen_site, launcher_folders, site_option
from clusterjobs.admin.templates.samples import packaged_samples, template_variables
from clusterjobs.console.show import printable, table
from clusterjobs.errors import did_you_mean, nearest, one_problem
from clusterjobs.script.site.check import packaged_texts
from clusterjobs.script.site.templates import INSERTION_POINTS, SiteFile, SiteTemplates, parse
from clusterjobs.script.site.variables import KINDS, Variable, variables
from clusterjobs.sites.folders import read_site_templates

# ------------------------------------------------------------------ listed
#
# The templates as `clusterjobs templates` shows them: origin, description, sections, text.


PACKAGED_ORIGIN = "packaged"


class TemplateInfo(NamedTuple):
    """A template or an insertion point.

    `origins`: the site's files, the highest precedence first, or "packaged", or none for an
    insertion point without lines. `printed`: what it prints, and when. `sections`: those of the
    variables that the packaged text uses. `text`: the text that is used.
    """

    name: str
    origins: tuple[str, ...]
    printed: str
    sections: tuple[str, ...]
    text: str


def template_infos(
    site: SiteTemplates, folders: tuple[pathlib.Path, ...], sections: tuple[str, ...]
) -> tuple[TemplateInfo, ...]:
    """The insertion points, then all templates by name."""
    packaged = packaged_texts(folders)
    overrides = site.overrides()
    names = ["job.sh.j2", *sorted({*packaged, *overrides} - {"job.sh.j2"})]
    found = [_point(point, site) for point in INSERTION_POINTS]
    for name in names:
        if not name.endswith(".j2"):
            continue
        files = tuple(one.file for one in site.files if one.name == name)
        text = overrides[name].text if name in overrides else packaged[name]
        original = packaged.get(name, text)
        names_in = meta.find_undeclared_variables(parse(SiteFile(name, name, original)))
        used = tuple(one for one in sections if one in names_in)
        origins = files or (PACKAGED_ORIGIN,)
        found.append(TemplateInfo(name, origins, description(original), used, text))
    return tuple(found)


def _point(point: str, site: SiteTemplates) -> TemplateInfo:
    files = site.insertions(point)
    text = "".join(f"# From {one.file}:\n{one.text.rstrip()}\n" for one in files)
    return TemplateInfo(
        f"{point}.sh", tuple(one.file for one in files), INSERTION_POINTS[point], (), text
    )


def description(text: str) -> str:
    """The sentence that a template starts with."""
    match = re.match(r"\{##-?\s*(.*?)\s*-?##\}", text, re.DOTALL)
    paragraph = match[1].split("\n\n")[0] if match else ""
    return " ".join(paragraph.split())


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script to read.")


@click.command(name="list", short_help="List templates, insertion points and variables.")
@site_option
@_json
def list_(site: pathlib.Path | None, as_json: bool) -> None:
    """List the insertion points, the templates, where each is from, and all variables.

    \b
    Examples:
      clusterjobs templates list
      clusterjobs templates list --json | jq '.templates[].name'
    """
    infos, found = _all(site)
    if as_json:
        data = {
            "templates": [{k: v for k, v in one._asdict().items() if k != "text"} for one in infos],
            "variables": [one._asdict() for one in found],
        }
        _print_json(data)
        return
    rows = [("NAME", "FROM", "VARIABLES", "PRINTED")]
    rows += [(one.name, _origin(one), " ".join(one.sections) or "-", one.printed) for one in infos]
    click.echo(table(rows))
    click.echo("\nEvery template gets all variables:\n")
    click.echo(_variable_table(found))
    click.echo("\nA template uses them by their type:\n")
    click.echo(table([(f"  {kind}", use) for kind, use in KINDS.items()]))


@click.command(short_help="Show the text and the variables of a template.")
@click.argument("block")
@site_option
@_json
def show(block: str, site: pathlib.Path | None, as_json: bool) -> None:
    """Show BLOCK: its text, where it is from, and the variables of its sections.

    \b
    Examples:
      clusterjobs templates show launch
      clusterjobs templates show functions/end.sh.j2
      clusterjobs templates show before_launch
    """
    infos, found = _all(site)
    info = _named(block, infos)
    used = [one for one in found if one.name.split(".")[0] in info.sections]
    if as_json:
        _print_json({**info._asdict(), "variables": [one._asdict() for one in used]})
        return
    click.echo(f"{info.name}: {info.printed}")
    click.echo(f"from: {', '.join(map(printable, info.origins)) or 'no file: it is empty'}")
    if used:
        click.echo(f"\n{_variable_table(used)}")
    if info.text:
        click.echo(f"\n{printable(info.text.rstrip(), kept=chr(10) + chr(9))}")


def _all(site: pathlib.Path | None) -> tuple[tuple[TemplateInfo, ...], tuple[Variable, ...]]:
    shape = template_variables(packaged_samples())
    templates = read_site_templates(chosen_site(site))
    infos = template_infos(templates, launcher_folders(), tuple(shape.fields))
    return infos, tuple(variables(shape))


def _named(block: str, infos: Sequence[TemplateInfo]) -> TemplateInfo:
    """A template by its name, or by the last part of it: `launch` is blocks/launch.sh.j2."""
    by_name = {one.name: one for one in infos}
    for name in (block, f"{block}.sh", f"blocks/{block}.sh.j2", f"{block}.sh.j2", f"{block}.j2"):
        if name in by_name:
            return by_name[name]
    short = {_short(name): name for name in by_name}
    match = nearest(block, [*by_name, *short])
    hint = f"did you mean {match}?" if match else did_you_mean(block, list(by_name))
    raise one_problem(f"there is no template and no insertion point {block}", hint=hint)


def _short(name: str) -> str:
    return name.removeprefix("blocks/").removesuffix(".j2").removesuffix(".sh")


def _origin(info: TemplateInfo) -> str:
    return ", ".join(map(printable, info.origins)) or "-"


def _variable_table(found: Sequence[Variable]) -> str:
    rows = [(one.name, one.kind, printable(one.example)) for one in found]
    return table([("VARIABLE", "TYPE", "EXAMPLE"), *rows])


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))
