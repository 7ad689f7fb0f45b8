"""Reads the templates of the site folders."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

from clusterjobs.commands.files import read_text
from clusterjobs.commands.shell_check import insertion_problems
from clusterjobs.commands.site_folders import SiteFolders
from clusterjobs.errors import InputError, Location, Problem, one_problem
from clusterjobs.render.site_templates import SiteFile, SiteTemplates

FOLDER = "templates"
_ENDINGS = (".j2", ".sh")


def read_site_templates(site: SiteFolders) -> SiteTemplates:
    """All templates of the site folders, the highest precedence first. Raises InputError."""
    files: list[SiteFile] = []
    problems: list[Problem] = []
    for folder in (one / FOLDER for one in site.folders):
        if os.path.lexists(folder) and not folder.is_dir():
            problems.append(Problem(f"{folder} is not a folder", Location(str(folder), 1, 1)))
        for path in _files(folder):
            try:
                files.append(_read(folder, path))
            except InputError as error:
                problems += error.problems
    problems += [one for file in files if file.point for one in insertion_problems(file)]
    if problems:
        raise InputError(problems)
    return SiteTemplates(tuple(files))


def _read(folder: pathlib.Path, path: pathlib.Path) -> SiteFile:
    if path.exists() and not path.is_file():
        kind = "folder" if path.is_dir() else "pipe or a device"
        hint = "a template is a file: rename it, or put the lines into a file of this name"
        raise one_problem(f"this is a {kind}", Location(str(path), 1, 1), hint=hint)
    return SiteFile(path.relative_to(folder).as_posix(), str(path), read_text(path))


def _files(folder: pathlib.Path) -> list[pathlib.Path]:
    """What has the name of a template, in order; other files, such as a README, do not matter."""
    return sorted(_walk(folder, {os.path.realpath(folder)}))


def _walk(folder: pathlib.Path, seen: set[str]) -> Iterator[pathlib.Path]:
    """Links to folders are followed, each folder once."""
    if not folder.is_dir():
        return
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise one_problem(
            f"cannot read the folder {folder}: {error.strerror}", hint="check who may read it"
        ) from None
    for path in entries:
        if path.name.startswith("."):
            continue
        if path.name.endswith(_ENDINGS):
            yield path
        elif path.is_dir() and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield from _walk(path, seen)
