"""clusterjobs templates docs: a page about a site for its wiki.

Knows the sections of the page; what they say is taken from the files themselves.
"""

from __future__ import annotations

import html
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from clusterjobs.admin.templates.check import chosen_site, launcher_folders, site_option
from clusterjobs.admin.templates.list import TemplateInfo, template_infos
from clusterjobs.admin.templates.overrides import write_file
from clusterjobs.admin.templates.samples import packaged_samples, template_variables
from clusterjobs.clusters.source import cluster_names
from clusterjobs.console.show import printable
from clusterjobs.errors import one_problem
from clusterjobs.frameworks import option_models
from clusterjobs.script.site.templates import INSERTION_POINTS
from clusterjobs.script.site.variables import KINDS, variables
from clusterjobs.sites.folders import (
    DEFAULTS_FILE,
    SiteFolders,
    cluster_files,
    read_site_templates,
    read_sites,
    read_text,
    shown_path,
    site_clusters,
    site_rules,
)
from clusterjobs.sites.policy import demand_text, selection_text
from clusterjobs.spec.defaults import load_defaults
from clusterjobs.version import __version__
from clusterjobs.yaml.document import Path, dotted

# ------------------------------------------------------------------ markdown
#
# Markdown from any text: what a file of the site holds cannot become markup of the page.
#
# Knows Markdown with tables (CommonMark and GitHub's extension); it


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
    if output.exists() and not _is_ours(output):
        raise one_problem(
            f"{output} was not written by `clusterjobs templates docs`",
            hint="-o names another file",
        )
    write_file(output, page)


def _is_ours(file: pathlib.Path) -> bool:
    return read_text(file).startswith(_FIRST_LINE)


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
    known = cluster_names(cluster_files(site))
    for file, text in read_sites(site.files(DEFAULTS_FILE)):
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
    for rule, where in site_rules(site):
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
    for name, found in site_clusters(site).items():
        yield code(name), code(shown_path(found.file))


def _templates(site: SiteFolders) -> Iterator[str]:
    shape = template_variables(packaged_samples())
    infos = template_infos(read_site_templates(site), launcher_folders(), tuple(shape.fields))
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
