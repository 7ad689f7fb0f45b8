"""Reads the templates of the site folders."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

from clusterjobs.commands.files import read_text
from clusterjobs.commands.shell_check import insertion_problems
from clusterjobs.commands.site_folders import TEMPLATES, SiteFolders, is_file, unreadable
from clusterjobs.errors import InputError, Problem
from clusterjobs.render.site.merge import marker_problems
from clusterjobs.render.site.templates import SiteFile, SiteTemplates

_ENDINGS = (".j2", ".sh")


def read_site_templates(site: SiteFolders) -> SiteTemplates:
    """All templates of the site folders, the highest precedence first. Raises InputError."""
    files: list[SiteFile] = []
    problems: list[Problem] = []
    for folder in site.subfolders(TEMPLATES):
        for path in sorted(template_files(folder, {os.path.realpath(folder)})):
            try:
                files.append(_read(folder, path))
            except InputError as error:
                problems += error.problems
    inserted = [one for one in files if one.point and one.point != "directives"]
    problems += insertion_problems(inserted) if inserted else ()
    if problems:
        raise InputError(problems)
    return SiteTemplates(tuple(files))


def _read(folder: pathlib.Path, path: pathlib.Path) -> SiteFile:
    is_file(path)  # raises for a folder or a pipe, and names a broken link
    text = read_text(path)
    if unresolved := marker_problems(text, str(path)):
        raise InputError(unresolved)
    return SiteFile(path.relative_to(folder).as_posix(), str(path), text)


def template_files(folder: pathlib.Path, seen: set[str]) -> Iterator[pathlib.Path]:
    """What has the name of a template; other files, such as a README, do not matter.

    Links to folders are followed, each folder once.
    """
    try:
        entries = [(path, path.is_dir()) for path in folder.iterdir()]
    except OSError as error:
        raise unreadable(folder, error) from None
    for path, is_folder in entries:
        if path.name.startswith("."):
            continue
        if path.name.endswith(_ENDINGS):
            yield path
        elif is_folder and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield from template_files(path, seen)
