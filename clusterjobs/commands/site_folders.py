"""Finds the site folders: an admin's values, defaults, policies, clusters and templates.

Knows where such folders are and how their files are called; it must not know what is in the files.
"""

from __future__ import annotations

import os
import pathlib
from typing import NamedTuple

from clusterjobs.errors import one_problem

VARIABLE = "CLUSTERJOBS_SITE"
SYSTEM_FOLDER = pathlib.Path("/etc/clusterjobs")
SITE_FILE = "site.yaml"


class SiteFolders(NamedTuple):
    """The site folders in use, the highest precedence first."""

    folders: tuple[pathlib.Path, ...] = ()

    def files(self, name: str) -> tuple[pathlib.Path, ...]:
        """The files of that name which exist, the highest precedence first."""
        return tuple(folder / name for folder in self.folders if (folder / name).is_file())

    def subfolders(self, name: str) -> tuple[pathlib.Path, ...]:
        """The folders of that name which exist, the highest precedence first."""
        return tuple(folder / name for folder in self.folders if (folder / name).is_dir())


def find_site_folders() -> SiteFolders:
    """`$CLUSTERJOBS_SITE`, the user's own and the system's, as far as they exist.

    Raises InputError if the variable names no folder.
    """
    named = os.environ.get(VARIABLE)
    if named and not _is_folder(pathlib.Path(named)):
        raise one_problem(f"{VARIABLE} names no folder: {named}", hint="correct it, or unset it")
    folders = [*([pathlib.Path(named)] if named else []), user_folder(), SYSTEM_FOLDER]
    return SiteFolders(tuple(dict.fromkeys(filter(_is_folder, folders))))


def _is_folder(path: pathlib.Path) -> bool:
    """False, too, if this user may not enter a parent: Path.is_dir would raise."""
    return os.path.isdir(path)  # noqa: PTH112


def user_folder() -> pathlib.Path:
    """The user's own site folder, whether it exists or not."""
    config_home = os.environ.get("XDG_CONFIG_HOME") or str(pathlib.Path.home() / ".config")
    return pathlib.Path(config_home) / "clusterjobs"
