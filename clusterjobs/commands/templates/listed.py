"""The templates as `clusterjobs templates` shows them: origin, description, sections, text."""

from __future__ import annotations

import pathlib
import re
from typing import NamedTuple

from jinja2 import meta

from clusterjobs.render.site.check import packaged_texts
from clusterjobs.render.site.syntax import parse
from clusterjobs.render.site.templates import INSERTION_POINTS, SiteFile, SiteTemplates

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
