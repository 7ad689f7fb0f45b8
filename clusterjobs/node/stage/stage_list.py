"""List a folder: its files, folders and links, by several processes at once."""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from stage_log import SourceError, os_failure, printable
from stage_pool import run_parallel, worker_count

_MAX_NAME_BYTES = 8 << 10  # of the folder names in one task

File = Tuple[int, int, int, int]  # size, mtime, permissions, ctime
Folder = Tuple[
    str, Tuple[str, ...]
]  # its name with a slash; the folders that links to it have led through


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
        found.files[""] = _file_row(root, status)
        return found

    def work(batch: List[Folder]) -> Any:
        return _list_folders(root, batch, follow)

    def on_result(_: Any, answer: Any) -> Iterator[List[Folder]]:
        (files, folders, links), subfolders = answer
        found.files.update(files)
        found.folders.update(folders)
        found.links.update(links)
        return _batches(subfolders)

    # The top folder in this process: it shows how many others there are.
    run_parallel(work, on_result(None, work([("", (os.path.realpath(root),))])), on_result)
    return found


def _batches(folders: List[Folder]) -> Iterator[List[Folder]]:
    most = -(-len(folders) // (4 * worker_count()))
    batch: List[Folder] = []
    size = 0
    for one in folders:
        batch.append(one)
        size += len(one[0]) + sum(map(len, one[1]))
        if len(batch) >= most or size > _MAX_NAME_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _list_folders(root: str, batch: List[Folder], follow: bool) -> Tuple[Any, List[Folder]]:
    """The direct contents of some folders, and their subfolders."""
    found = Listing({}, {}, {})
    subfolders: List[Folder] = []
    for one in batch:
        path = path_of(root, one[0][:-1])
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                subfolders += _list_folder(folder, path, one, follow, found)
            finally:
                os.close(folder)
        except OSError as error:
            raise os_failure(path, error) from None
    return tuple(found), subfolders


def _list_folder(
    folder: int, path: str, which: Folder, follow: bool, found: Listing
) -> Iterator[Folder]:
    prefix, passed = which
    files, is_file = found.files, stat.S_ISREG
    with os.scandir(folder) as items:  # by its descriptor: no path to resolve for each file
        for item in items:
            name = prefix + item.name
            status = item.stat(follow_symlinks=False)
            if is_file(status.st_mode):
                files[name] = _row(status)
                continue
            here = path_of(path, item.name)
            is_link = stat.S_ISLNK(status.st_mode)
            if is_link:
                link = os.readlink(here)
                if not follow or _stays_inside(prefix, link):
                    found.links[name] = link
                    continue
                status = _stat_target(here, link)
            if stat.S_ISDIR(status.st_mode):
                found.folders[name] = stat.S_IMODE(status.st_mode) & 0o777
                yield name + "/", _passed_folders(here, path, passed) if is_link else passed
            else:
                files[name] = _file_row(here, status)


def _file_row(path: str, status: os.stat_result) -> File:
    if not stat.S_ISREG(status.st_mode):
        what = "neither a file nor a folder nor a link: move it away"
        raise SourceError("%s: %s" % (printable(path), what))
    return _row(status)


def _row(status: os.stat_result) -> File:
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
