"""The templates of the site folders as data: files that replace a template, and lines to insert.

Knows the names of the insertion points; it must not read files, and not know what a template says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from clusterjobs.render import shell
from clusterjobs.render.shell import ShellText

PACKAGED = "packaged/"  # the prefix of the packaged templates' names, as in {% include %}

# Name -> when its lines are printed. A site writes the lines into the file NAME.sh.
INSERTION_POINTS: Mapping[str, str] = MappingProxyType(
    {
        "directives": "after the directives: further lines of #SBATCH",
        "before_environment": "before the variables, modules and setup of the spec",
        "after_environment": "after the variables, modules and setup of the spec",
        "before_launch": "right before the ranks are started, on the first node",
        "after_launch": "after a training that ended well, before the spec's `after`",
    }
)


class SiteFile(NamedTuple):
    """A file in a site's `templates/`: its name there, its path as in messages, and its text."""

    name: str
    file: str
    text: str

    @property
    def point(self) -> str:
        """The insertion point that it fills; "" for a template."""
        stem = self.name.removesuffix(".sh")
        return stem if stem != self.name and stem in INSERTION_POINTS else ""


class SiteTemplates(NamedTuple):
    """The files of all site folders' `templates/`, the highest precedence first."""

    files: tuple[SiteFile, ...] = ()

    def overrides(self) -> dict[str, SiteFile]:
        """The templates by name: of several with one name, that of the highest precedence."""
        return {one.name: one for one in reversed(self.files) if not one.point}

    def used(self, templates: Collection[str]) -> tuple[SiteFile, ...]:
        """The files of a script that used these templates: its overrides, and what it inserts."""
        overrides = [one for name, one in self.overrides().items() if name in templates]
        inserted = [one for point in INSERTION_POINTS for one in self.insertions(point)]
        return (*inserted, *sorted(overrides))

    def insertions(self, point: str) -> tuple[SiteFile, ...]:
        """The files with the lines of an insertion point, in the order in which they are printed.

        The lowest precedence is printed first: what a user adds comes after the system's lines.
        """
        return tuple(one for one in reversed(self.files) if one.point == point)


NO_SITE = SiteTemplates()


def site_context(site: SiteTemplates) -> dict[str, Any]:
    """What the insertion points print, and the place of the header's lines about the site."""
    points = {
        point: [_inserted(one) for one in site.insertions(point)] for point in INSERTION_POINTS
    }
    return {"has_templates": bool(site.files), "used": ShellText(_USED), **points}


def _inserted(one: SiteFile) -> dict[str, Any]:
    return {"file": shell.comment(one.file), "code": shell.code((one.text.rstrip("\n"),))}


_USED = "# \0"  # no other text has this character


def with_used_files(text: str, used: Iterable[SiteFile]) -> str:
    """The script whose header names the site's files that were used: known after the render."""
    files = [shell.comment(one.file) for one in used]
    lines = ["# Changed by templates of this site:", *(f"#   {file}" for file in files)]
    return text.replace(f"{_USED}\n", "".join(f"{line}\n" for line in lines) if files else "", 1)
