"""Reads the templates of the site folders."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

from clusterjobs.commands.files import read_text
from clusterjobs.commands.site_folders import SiteFolders
from clusterjobs.errors import InputError
from clusterjobs.render.merge import marker_problems
from clusterjobs.render.site_templates import SiteFile, SiteTemplates

FOLDER = "templates"


def read_site_templates(site: SiteFolders) -> SiteTemplates:
    """All templates of the site folders, the highest precedence first. Raises InputError."""
    folders = site.subfolders(FOLDER)
    return SiteTemplates(tuple(file for folder in folders for file in _read_folder(folder)))


def _read_folder(folder: pathlib.Path) -> Iterator[SiteFile]:
    for path in _files(folder):
        name, text = path.relative_to(folder).as_posix(), read_text(path)
        if unresolved := marker_problems(text, str(path)):
            raise InputError(unresolved)
        yield SiteFile(name, str(path), text)


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The templates and scripts in the folder; other files, such as a README, are no templates."""
    found: list[pathlib.Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [pathlib.Path(place, name) for name in names if _is_template(name)]
    return sorted(found)


def _is_template(name: str) -> bool:
    return name.endswith((".j2", ".sh")) and not name.startswith(".")
