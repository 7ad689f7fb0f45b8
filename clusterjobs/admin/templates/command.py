"""clusterjobs templates: the templates of the job script, and what a site changes in them."""

import html
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import click
from jinja2 import meta

from clusterjobs.admin.templates.check import (
    check,
    chosen_site,
    launcher_folders,
    packaged_samples,
    site_option,
    template_variables,
)
from clusterjobs.admin.templates.overrides import write_file
from clusterjobs.admin.templates.test import test
from clusterjobs.admin.templates.update import diff, override, update
from clusterjobs.clusters.source import cluster_names
from clusterjobs.console import printable, table
from clusterjobs.errors import did_you_mean, nearest, one_problem
from clusterjobs.frameworks import option_models
from clusterjobs.script.site import INSERTION_POINTS, SiteFile, SiteTemplates, parse
from clusterjobs.script.site.check import packaged_texts
from clusterjobs.script.site.variables import KINDS, Variable, variables
from clusterjobs.sites.folders import (
    SiteFolders,
    read_text,
    shown_path,
)
from clusterjobs.sites.policy import demand_text, selection_text
from clusterjobs.spec.defaults import load_defaults
from clusterjobs.version import __version__
from clusterjobs.yaml.document import Path, dotted

# ------------------------------------------------------------------ list and show


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
    templates = chosen_site(site).templates
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


# ------------------------------------------------------------------ docs: a page for a wiki
# Text from a site's files is escaped, so that it cannot become markup of the page.


_MARKUP = re.compile(r"[\\`*_\[\]|~]")  # a cell is never at the start of a line
_LINK = re.compile(r"https?://[^\s<>|\\]+")


def plain(text: str) -> str:
    """Text in one line that a reader sees as it is."""
    line = printable(" ".join(text.split()))
    return html.escape(_MARKUP.sub(r"\\\g<0>", line), quote=False)


def code(text: str) -> str:
    """The text as code: a name, a path, a value."""
    line = printable(" ".join(text.split()))
    if not line:
        return ""
    if "|" in line or "`" in line:  # what ends a cell, or the code
        entities = (one if one.isalnum() or one in " ./:" else f"&#{ord(one)};" for one in line)
        return f"<code>{''.join(entities)}</code>"
    return f"`{line}`"


def link(url: str) -> str:
    """A link to a page, or plain text if it is no web address."""
    return f"<{url}>" if _LINK.fullmatch(url) else plain(url)


def markdown_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; a sentence if it has no row."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return "None.\n"
    return "\n".join([f"| {' | '.join(heading)} |", "|---" * len(heading) + "|", *lines, ""])


_FIRST_LINE = "<!-- Written by `clusterjobs templates docs`: do not edit, run it again. -->\n"
_EXAMPLES = """\b
Examples:
  clusterjobs templates docs -o wiki/clusterjobs.md
  clusterjobs templates docs --site ./our-site
"""


@click.command(epilog=_EXAMPLES, short_help="Write a page about your site for a wiki.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    metavar="FILE",
    help="The file for the page, instead of standard output.",
)
@site_option
def docs(output: pathlib.Path | None, site: pathlib.Path | None) -> None:
    """Write a page of Markdown about your site: defaults, rules, clusters, blocks and variables."""
    page = f"{_FIRST_LINE}\n" + "\n".join(_page(chosen_site(site)))
    if output is None:
        click.echo(page, nl=False)
        return
    if output.exists() and not read_text(output).startswith(_FIRST_LINE):
        raise one_problem(
            f"{output} was not written by `clusterjobs templates docs`",
            hint="-o names another file",
        )
    write_file(output, page)


def _page(site: SiteFolders) -> Iterator[str]:
    yield f"# Jobs on our clusters (clusterjobs {__version__})\n"
    yield "The folders of our site, the highest precedence first:\n"
    yield "".join(f"- {code(str(folder))}\n" for folder in site.folders) or "None.\n"
    yield "## Defaults\n"
    yield "Values below every spec; a spec that sets the key has its own.\n"
    yield markdown_table(("for", "key", "value", "from"), _defaults(site))
    yield "## Rules\n"
    yield "What jobs must have or must not have. `clusterjobs plan exp.yaml` checks them.\n"
    heading = ("rule", "action", "jobs", "asks", "why", "more", "from")
    yield markdown_table(heading, _rules(site))
    yield "## Clusters\n"
    yield "Clusters of our own, for `cluster:` in a spec.\n"
    yield markdown_table(("name", "from"), _clusters(site))
    yield from _templates(site)


def _defaults(site: SiteFolders) -> Iterator[tuple[str, ...]]:
    known = cluster_names(site.cluster_files)
    for file, text in site.defaults:
        document = load_defaults(text, file, known, option_models()).document
        for whom, path in _sections(document.value or {}):
            for inner, value in _leaves(_at(document.value, path), ()):
                where = document.locate((*path, *inner))
                origin = f"{shown_path(pathlib.Path(where.file))}:{where.line}"
                shown = json.dumps(value, ensure_ascii=False, default=str)
                yield plain(whom), code(dotted(inner)), code(shown), code(origin)


def _sections(value: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    yield "all jobs", ("all",)
    for name, cluster in (value.get("clusters") or {}).items():
        yield f"cluster {name}", ("clusters", name)
        for queue in (cluster or {}).get("queues") or {}:
            yield f"queue {queue} of {name}", ("clusters", name, "queues", queue)


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = (value or {}).get(step)
    return value


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Single values and lists, with their paths; `queues` of a cluster is a section of its own."""
    if not isinstance(value, dict) or not value:
        if path:
            yield path, value
        return
    for key, inner in value.items():
        if path or key != "queues":
            yield from _leaves(inner, (*path, key))


def _rules(site: SiteFolders) -> Iterator[tuple[str, ...]]:
    for rule, where in site.rules:
        yield (
            code(rule.name),
            rule.action,
            plain(selection_text(rule)),
            plain(demand_text(rule)),
            plain(rule.message),
            link(rule.link) if rule.link else "",
            code(f"{where.file}:{where.line}"),
        )


def _clusters(site: SiteFolders) -> Iterator[tuple[str, ...]]:
    for name, found in site.clusters.items():
        yield code(name), code(shown_path(found.file))


def _templates(site: SiteFolders) -> Iterator[str]:
    shape = template_variables(packaged_samples())
    infos = template_infos(site.templates, launcher_folders(), tuple(shape.fields))
    points = [one for one in infos if one.name.removesuffix(".sh") in INSERTION_POINTS]
    yield "## Insertion points\n"
    yield "A file of this name in `templates/` of a site folder adds its lines there.\n"
    yield markdown_table(("file", "printed", "from"), map(_point_row, points))
    yield "## Blocks\n"
    yield "The templates of the job script. A site's own replaces the packaged one.\n"
    blocks = [one for one in infos if one not in points]
    yield markdown_table(("template", "from", "prints", "variables"), map(_block_row, blocks))
    yield "## Variables of the blocks\n"
    yield "Every template gets all of them. How a template uses each type:\n"
    yield markdown_table(("type", "use"), ((kind, code(use)) for kind, use in KINDS.items()))
    rows = ((code(one.name), one.kind, code(one.example)) for one in variables(shape))
    yield markdown_table(("variable", "type", "example"), rows)


def _point_row(one: TemplateInfo) -> tuple[str, ...]:
    return code(one.name), plain(one.printed), _origins(one)


def _block_row(one: TemplateInfo) -> tuple[str, ...]:
    return code(one.name), _origins(one), plain(one.printed), ", ".join(map(code, one.sections))


def _origins(one: TemplateInfo) -> str:
    return ", ".join(code(shown_path(pathlib.Path(file))) for file in one.origins)


@click.group()
def templates() -> None:
    """The templates of job scripts: the packaged ones, and those of your site.

    \b
    Examples:
      clusterjobs templates list
      clusterjobs templates override launch
      clusterjobs templates check --site ./our-site
      clusterjobs templates update --dry-run     (after an upgrade of clusterjobs)
    """


for _command in (list_, show, check, override, diff, update, test, docs):
    templates.add_command(_command)
