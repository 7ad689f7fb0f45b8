"""Checks all files of a site's `templates/` together, before they are rendered.

Knows which names there are; what may stand in a template is template_check's.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Mapping

from clusterjobs import resources
from clusterjobs.errors import Location, Problem, in_order
from clusterjobs.render.site.expressions import similar_name, used_names
from clusterjobs.render.site.lines import check_lines
from clusterjobs.render.site.syntax import at
from clusterjobs.render.site.template_check import check_template
from clusterjobs.render.site.templates import INSERTION_POINTS, PACKAGED, SiteTemplates
from clusterjobs.render.site.variables import Shape


def check_site(
    site: SiteTemplates, context: Shape, folders: tuple[pathlib.Path, ...] = ()
) -> list[Problem]:
    """All problems. `context`: of the variables; `folders`: templates of other packages."""
    texts = all_texts(site, folders)
    looped = _loop_variables(texts, context)
    problems: list[Problem] = []
    for file in site.overrides().values():
        if file.name.endswith(".j2"):
            scope = {**context.fields, **looped.get(file.name, {})}
            problems += check_template(file, scope, texts)
    problems += [*check_lines(site), *_unused(site, texts), *_circles(site, texts)]
    return in_order(problems)


def packaged_texts(folders: tuple[pathlib.Path, ...] = ()) -> dict[str, str]:
    """Every template that came with clusterjobs, or with another package, by its name."""
    others = {name: text for one in folders for name, text in resources.template_texts(one).items()}
    return {**others, **resources.template_texts()}


def all_texts(site: SiteTemplates, folders: tuple[pathlib.Path, ...] = ()) -> dict[str, str]:
    """Every template that an {% include %} can name."""
    packaged = packaged_texts(folders)
    prefixed = {f"{PACKAGED}{name}": text for name, text in packaged.items()}
    own = {name: file.text for name, file in site.overrides().items() if name.endswith(".j2")}
    return {**packaged, **prefixed, **own}


_INCLUDED_IN_LOOP = re.compile(
    r"""\{%\s*for (\w+) in ([\w.]+)\s*%\}\s*\{%\s*include ["'](.+?)["']"""
)


def _loop_variables(texts: Mapping[str, str], context: Shape) -> dict[str, dict[str, Shape | None]]:
    """Template -> the variables that it gets from the loop in which another one includes it."""
    found: dict[str, dict[str, Shape | None]] = {}
    for text in texts.values():
        for variable, path, name in _INCLUDED_IN_LOOP.findall(text):
            shape: Shape | None = context
            for part in path.split("."):
                shape = shape.fields.get(part) if shape else None
            item = shape.item if shape else None
            known = found.setdefault(name.removeprefix(PACKAGED), {})
            known[variable] = known.get(variable) or item
    return found


def _unused(site: SiteTemplates, texts: Mapping[str, str]) -> Iterator[Problem]:
    """Files that replace nothing, and that no other template includes."""
    own = site.overrides()
    included = {name for one in own.values() for name in used_names(one.text)}
    for name, file in own.items():
        if f"{PACKAGED}{name}" in texts or name in included or _may_be_a_launcher(name):
            continue
        known = [*INSERTION_POINTS, *(one for one in texts if one not in own)]
        if name.endswith(".sh"):
            known = [f"{point}.sh" for point in INSERTION_POINTS]
        what = f"{name} is used nowhere: no template and no insertion point has this name"
        yield Problem(what, Location(file.file, 1, 1), "", similar_name(name, known))


def _may_be_a_launcher(name: str) -> bool:
    """Whether it may be the template of a launcher of another package, which this job lacks."""
    from clusterjobs.launchers import LAUNCHERS

    stem = name.removeprefix("launch/").removesuffix(".sh.j2").removesuffix("_in_docker")
    return name.startswith("launch/") and stem in LAUNCHERS


def _circles(site: SiteTemplates, texts: Mapping[str, str]) -> Iterator[Problem]:
    """Templates that include themselves through others: the render would not end."""
    known: set[str] = set()
    for name, file in sorted(site.overrides().items()):
        if name not in known and (path := _way_back(name, texts)) and len(path) > 2:
            known.update(path)
            what = f"these templates include one another without end: {' -> '.join(path)}"
            line = file.text[: file.text.index(path[1])].count("\n") + 1
            hint = f"include the packaged one: {PACKAGED}{name}"
            yield Problem(what, at(file, line, path[1]), "", hint)


def _way_back(name: str, texts: Mapping[str, str]) -> list[str]:
    """The shortest way from a template through its includes back to itself; empty without one."""
    ways, seen = [[name]], {name}
    while ways:
        way = ways.pop(0)
        for following in used_names(texts.get(way[-1], "")):
            if following == name:
                return [*way, name]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return []
