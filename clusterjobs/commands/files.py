"""Reads the files named on the command line, and the site files."""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Sequence
from typing import BinaryIO

from clusterjobs.commands.site_folders import (
    SITE_FILE,
    SiteFolders,
    find_site_folders,
    is_file,
    not_writable_by_all,
    user_folder,
)
from clusterjobs.errors import Location, nearest, one_problem
from clusterjobs.yaml.document import MAX_BYTES, decode

STDIN = pathlib.Path("-")


def shown_path(path: pathlib.Path) -> str:
    """The path, relative to the working folder if it is below it."""
    try:
        return str(path.relative_to(pathlib.Path.cwd()))
    except ValueError:
        return str(path)


def shown_name(path: pathlib.Path) -> str:
    """The name of a file in messages."""
    return "<stdin>" if path == STDIN else str(path)


def site_files(beside: pathlib.Path, site: SiteFolders | None = None) -> list[pathlib.Path]:
    """The possible site.yaml files, the highest precedence first.

    Beside the file, in the working folder, and in the site folders (`site`, or those found).
    """
    own = user_folder()
    folders = (site or find_site_folders()).folders or ((own,) if own else ())
    own_files = (f / SITE_FILE for f in (beside.parent, pathlib.Path()))
    return list(dict.fromkeys([*own_files, *(not_writable_by_all(f / SITE_FILE) for f in folders)]))


def read_sites(files: Sequence[pathlib.Path]) -> tuple[tuple[str, str], ...]:
    """(name, text) of the files that exist."""
    return tuple((str(file), read_text(file)) for file in files if is_file(file))


def read_text(path: pathlib.Path) -> str:
    """A file's text; `-` is standard input. Raises InputError for a bad path or bad bytes."""
    return decode(read_bytes(path, MAX_BYTES + 1), shown_name(path))


def read_bytes(path: pathlib.Path, most: int) -> bytes:
    """The first bytes of a file, or of standard input. Raises InputError for a bad path."""
    try:
        if path == STDIN:
            return _read_once(sys.stdin.buffer, most)
        with path.open("rb") as file:
            return file.read(most)
    except FileNotFoundError:
        raise one_problem(f"there is no file {path}", hint=_beside(path)) from None
    except IsADirectoryError:
        raise one_problem(f"{path} is a folder", hint="name the file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        where, hint = Location(str(path), 1, 1), "check the path, and who may read it"
        raise one_problem(f"cannot read {path}: {reason}", where, hint=hint) from None


@functools.lru_cache(maxsize=1)
def _read_once(stream: BinaryIO, most: int) -> bytes:
    """The bytes of a stream; kept, since `validate` reads a file twice."""
    return stream.read(most)


def _beside(path: pathlib.Path) -> str:
    folder = path.parent
    names = [item.name for item in folder.iterdir()] if folder.is_dir() else []
    match = nearest(path.name, names)
    return f"did you mean {folder / match}?" if match else f"looked in {folder.resolve()}"
