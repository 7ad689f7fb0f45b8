"""List a folder: its files, folders and links, by several threads at once."""

from __future__ import annotations

import os
import stat
from typing import Dict, Iterator, List, NamedTuple, Tuple

from stage_log import SourceError, os_failure, printable
from stage_pool import run_parallel

File = Tuple[int, int, int, int]  # size, mtime, permissions, ctime
# Its name with a slash; the real folders that links to it have led through.
Folder = Tuple[str, Tuple[str, ...]]


class Listing(NamedTuple):
    """Everything below a folder by relative name; a folder comes before its contents.

    A single file has the name "".
    """

    files: Dict[str, File]
    folders: Dict[str, int]  # permissions
    links: Dict[str, str]  # their targets

    def size(self) -> int:
        return len(self.files) + len(self.folders) + len(self.links)


EMPTY = Listing({}, {}, {})


def path_of(folder: str, name: str) -> str:
    """The path of a name; the name "" is the folder itself."""
    return folder + "/" + name if name else folder


def scan(root: str, follow: bool = True) -> Listing:
    """List a folder or a single file. Raises StageError.

    Relative links that stay inside are kept as links. Others are followed if `follow` is set: a
    copy must not depend on files outside of it.
    """
    found = Listing({}, {}, {})
    try:
        status = os.stat(root)
    except OSError as error:
        raise os_failure(root, error) from None
    if not stat.S_ISDIR(status.st_mode):
        found.files[""] = _row(root, status)
        return found

    def subfolders(folder: Folder) -> List[Folder]:
        try:
            return list(_list_folder(root, folder, follow, found))
        except OSError as error:
            raise os_failure(path_of(root, folder[0][:-1]), error) from None

    run_parallel(subfolders, [("", (os.path.realpath(root),))], lambda _, more: more)
    return found


def _list_folder(root: str, which: Folder, follow: bool, found: Listing) -> Iterator[Folder]:
    """Add the direct contents of a folder, and return its subfolders."""
    prefix, passed = which
    path = path_of(root, prefix[:-1])
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(folder) as items:  # by its descriptor: no path to resolve for each file
            for item in items:
                name, here = prefix + item.name, path + "/" + item.name
                status = item.stat(follow_symlinks=False)
                is_link = stat.S_ISLNK(status.st_mode)
                if is_link:
                    link = os.readlink(here)
                    if not follow or _stays_inside(prefix, link):
                        found.links[name] = link
                        continue
                    status = _stat_target(here, link)
                if stat.S_ISDIR(status.st_mode):
                    found.folders[name] = status.st_mode & 0o777
                    yield name + "/", _passed_folders(here, path, passed) if is_link else passed
                else:
                    found.files[name] = _row(here, status)
    finally:
        os.close(folder)


def _row(path: str, status: os.stat_result) -> File:
    if not stat.S_ISREG(status.st_mode):
        what = "neither a file nor a folder nor a link: move it away"
        raise SourceError("%s: %s" % (printable(path), what))
    return status.st_size, status.st_mtime_ns, status.st_mode & 0o777, status.st_ctime_ns


def _stays_inside(prefix: str, link: str) -> bool:
    return not link.startswith("/") and os.path.normpath(prefix + link).split("/")[0] != ".."


def _stat_target(path: str, link: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError:
        what = "broken link to %s: remove it, or put its target there" % printable(link)
        raise SourceError("%s: %s" % (printable(path), what)) from None


def _passed_folders(path: str, folder: str, passed: Tuple[str, ...]) -> Tuple[str, ...]:
    """The real folders that links have led through. Raises StageError if they form a cycle."""
    real = os.path.realpath(path)
    for outer in (*passed, os.path.realpath(folder)):
        if (outer + "/").startswith(real.rstrip("/") + "/"):
            what = "a link to a folder that contains it: remove it from the source"
            raise SourceError("%s: %s" % (printable(path), what))
    return (*passed, real)
