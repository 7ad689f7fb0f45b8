"""Which line of a site's template a line of the rendered script comes from, found by its text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.errors import Location
from clusterjobs.render.site.expressions import used_names
from clusterjobs.render.site.syntax import at
from clusterjobs.render.site.templates import SiteFile, SiteTemplates


def line_origin(line: str, files: Iterable[SiteFile]) -> Location | None:
    """The position of a script's line in the site's files; None if it is in none of them."""
    text = line.strip()
    for file in files:
        for number, one in enumerate(file.text.split("\n"), 1):
            if text and _may_print(one.strip(), text):
                return at(file, number)
    return None


_VALUE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def _may_print(template: str, text: str) -> bool:
    """Whether a template's line prints the text: its variables may have any value."""
    if template == text:
        return True
    literal = _VALUE.split(template)
    if len(literal) == 1 or len("".join(literal).strip()) < 4:
        return False
    return re.fullmatch(".*".join(map(re.escape, literal)), text) is not None


def replaced_by(name: str, site: SiteTemplates) -> Location | None:
    """The site's file that took the place of a packaged template, or of one that includes it."""
    overrides = site.overrides()
    if file := overrides.get(name):
        return Location(file.file, 1, 1)
    for file in overrides.values():
        for number, line in enumerate(file.text.split("\n"), 1):
            if any(one.endswith(name) for one in used_names(line)):
                return at(file, number, name)
    whole = overrides.get("job.sh.j2")
    return Location(whole.file, 1, 1) if whole else None
