"""Which line of a site's template a line of the rendered script comes from, found by its text."""

from __future__ import annotations

from collections.abc import Iterable

from clusterjobs.errors import Location
from clusterjobs.render.site_templates import SiteFile, SiteTemplates
from clusterjobs.render.template_check import used_names
from clusterjobs.render.template_syntax import at


def line_origin(line: str, files: Iterable[SiteFile]) -> Location | None:
    """The position of a script's line in the site's files; None if it is in none of them."""
    text = line.strip()
    for file in files:
        for number, one in enumerate(file.text.split("\n"), 1):
            if text and one.strip() == text:
                return at(file, number)
    return None


def replaced_by(name: str, site: SiteTemplates) -> Location | None:
    """The site's file that took the place of a packaged template, or of one that includes it."""
    overrides = site.overrides()
    for candidate in (name, "job.sh.j2"):
        if file := overrides.get(candidate):
            return at(file, 1)
    for file in overrides.values():
        if any(one.endswith(name) for one in used_names(file.text)):
            return at(file, 1)
    return None
