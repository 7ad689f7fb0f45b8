"""Finds the site folders: an admin's values, defaults, policies, clusters and templates.

Knows where such folders are and how their files are called; it must not know what is in the files.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import stat
from typing import NamedTuple

from clusterjobs.errors import InputError, Location, one_problem

VARIABLE = "CLUSTERJOBS_SITE"
SYSTEM_FOLDER = pathlib.Path("/etc/clusterjobs")
SITE_FILE = "site.yaml"
DEFAULTS_FILE = "defaults.yaml"
POLICY_FILE = "policy.yaml"
MEASUREMENTS_FILE = "measurements.jsonl"
CLUSTERS, TEMPLATES, TESTS = "clusters", "templates", "tests"


class SiteFolders(NamedTuple):
    """The site folders in use, the highest precedence first."""

    folders: tuple[pathlib.Path, ...] = ()

    def files(self, name: str) -> tuple[pathlib.Path, ...]:
        """The files of that name which exist, the highest precedence first.

        Raises InputError for one that is not a file, that every user may change, or that is below
        a folder that cannot be read.
        """
        found = (folder / name for folder in self.folders if is_file(folder / name))
        return tuple(map(not_writable_by_all, found))

    def subfolders(self, name: str) -> tuple[pathlib.Path, ...]:
        """The folders of that name which exist, the highest precedence first.

        Raises InputError for one that is a file, that every user may change, or that is below a
        folder that cannot be read.
        """
        found = (folder / name for folder in self.folders if is_folder(folder / name))
        return tuple(map(not_writable_by_all, found))


def find_site_folders() -> SiteFolders:
    """`$CLUSTERJOBS_SITE`, the user's own and the system's, as far as they exist.

    Raises InputError if the variable names no folder, a folder cannot be read, or every user may
    write to it. A user who may not enter the home that is set (after `su`, or in a service) has no
    folder of their own.
    """
    named = os.environ.get(VARIABLE)
    if named and not is_folder(pathlib.Path(named)):
        raise one_problem(f"{VARIABLE} names no folder: {named}", hint="correct it, or unset it")
    own = user_folder()
    is_entered = own and os.access(own.parent, os.X_OK, effective_ids=True)
    users = [own] if own and is_entered else []
    folders = [*([pathlib.Path(named)] if named else []), *users, SYSTEM_FOLDER]
    found = dict.fromkeys(filter(is_folder, folders))
    return SiteFolders(tuple(map(not_writable_by_all, found)))


def user_folder() -> pathlib.Path | None:
    """The user's own site folder, whether it exists or not; None for a user without a home."""
    config_home = os.environ.get("XDG_CONFIG_HOME")
    try:
        home = pathlib.Path(config_home) if config_home else pathlib.Path.home() / ".config"
    except RuntimeError:
        return None
    return home / "clusterjobs"


def is_file(path: pathlib.Path) -> bool:
    """Whether there is a file. Raises InputError if it is no regular file, or this is unknown."""
    mode = _mode(path)
    if mode is None:
        return False
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise one_problem(f"{path} is {kind}", hint=f"{path.name} must be a file")
    return True


def is_folder(path: pathlib.Path) -> bool:
    """Whether there is a folder. Raises InputError if it is a file, or this is unknown."""
    mode = _mode(path)
    if mode is None:
        return False
    if not stat.S_ISDIR(mode):
        raise one_problem(f"{path} is not a folder", hint="remove it, or make it a folder")
    return True


def not_writable_by_all(path: pathlib.Path) -> pathlib.Path:
    """The path. Raises InputError if every user may change it: its lines end up in job scripts."""
    mode = _mode(path)
    if mode is not None and mode & stat.S_IWOTH:
        what = f"every user can write to {path}, and what is in it runs in the jobs of others"
        hint = f"chmod -R o-w {shlex.quote(str(path))}"
        raise one_problem(what, hint=hint)
    return path


def _mode(path: pathlib.Path) -> int | None:
    """The type and permissions, None if there is nothing. A link is followed."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        what = f"{path} is a link to {path.readlink()}, which does not exist"
        raise one_problem(what, hint="correct the link, or remove it") from None
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: pathlib.Path, error: OSError) -> InputError:
    """The problem of a file or folder that cannot be read."""
    what = f"cannot read {path}: {error.strerror}"
    where, hint = Location(str(path), 1, 1), "check the path, and who may read it"
    return one_problem(what, where, hint=hint)
