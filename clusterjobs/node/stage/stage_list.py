"""What lies in a folder: its files, folders and links, listed by several processes at once."""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from stage_log import StageError, failure, shown
from stage_pool import run_all, workers

_SHARE = 8 << 10  # bytes of names that a process gets at once

File = Tuple[int, int, int, int]  # size, time of content, permissions, time of change
Folder = Tuple[str, Tuple[str, ...]]  # its name with a slash, the real folders links led through


class Listing(NamedTuple):
    """All below a folder by relative name; folders come before what they hold.

    A single file has the name "".
    """

    files: Dict[str, File]
    folders: Dict[str, int]  # permissions
    links: Dict[str, str]  # what they say

    def names(self) -> int:
        return len(self.files) + len(self.folders) + len(self.links)


NOTHING = Listing({}, {}, {})


def path_of(folder: str, name: str) -> str:
    """A file's path; the name "" is the whole of it."""
    return folder + "/" + name if name else folder


def scan(root: str, follow: bool = True) -> Listing:
    """All that lies there. Raises StageError.

    A relative link that stays inside is kept as a link. One that leads out is followed where
    `follow` says so: a copy must not lean on what may not be there.
    """
    found = Listing({}, {}, {})
    try:
        status = os.stat(root)
    except OSError as error:
        raise failure(root, error) from None
    if not stat.S_ISDIR(status.st_mode):
        found.files[""] = _file(root, status)
        return found

    def listed(share: List[Folder]) -> Any:
        return _listed(root, share, follow)

    def done(_: Any, answer: Any) -> Iterator[List[Folder]]:
        (files, folders, links), further = answer
        found.files.update(files)
        found.folders.update(folders)
        found.links.update(links)
        return _shares(further)

    # The first one here: most often it says how much there is to share.
    run_all(listed, done(None, listed([("", (os.path.realpath(root),))])), done)
    return found


def _shares(folders: List[Folder]) -> Iterator[List[Folder]]:
    most = -(-len(folders) // (4 * workers()))
    share: List[Folder] = []
    size = 0
    for one in folders:
        share.append(one)
        size += len(one[0]) + sum(map(len, one[1]))
        if len(share) >= most or size > _SHARE:
            yield share
            share, size = [], 0
    if share:
        yield share


def _listed(root: str, share: List[Folder], follow: bool) -> Tuple[Any, List[Folder]]:
    """What lies directly in some folders, and the folders further down."""
    found = Listing({}, {}, {})
    further: List[Folder] = []
    for one in share:
        path = path_of(root, one[0][:-1])
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                further += _looked_through(folder, path, one, follow, found)
            finally:
                os.close(folder)
        except OSError as error:
            raise failure(path, error) from None
    return tuple(found), further


def _looked_through(
    folder: int, path: str, which: Folder, follow: bool, found: Listing
) -> Iterator[Folder]:
    prefix, above = which
    files, is_file = found.files, stat.S_ISREG
    with os.scandir(folder) as items:  # by its number: no way is walked for each of its files
        for item in items:
            name = prefix + item.name
            status = item.stat(follow_symlinks=False)
            if is_file(status.st_mode):
                files[name] = _row(status)
                continue
            here = path_of(path, item.name)
            is_link = stat.S_ISLNK(status.st_mode)
            if is_link:
                said = os.readlink(here)
                if not follow or _stays_inside(prefix, said):
                    found.links[name] = said
                    continue
                status = _led_to(here, said)
            if stat.S_ISDIR(status.st_mode):
                found.folders[name] = stat.S_IMODE(status.st_mode) & 0o777
                yield name + "/", _way_down(here, path, above) if is_link else above
            else:
                files[name] = _file(here, status)


def _file(path: str, status: os.stat_result) -> File:
    if not stat.S_ISREG(status.st_mode):
        raise StageError("%s: neither a file nor a folder nor a link" % shown(path))
    return _row(status)


def _row(status: os.stat_result) -> File:
    return status.st_size, status.st_mtime_ns, status.st_mode & 0o777, status.st_ctime_ns


def _stays_inside(prefix: str, said: str) -> bool:
    return not said.startswith("/") and os.path.normpath(prefix + said).split("/")[0] != ".."


def _led_to(path: str, said: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError:
        raise StageError("%s: a link to nothing: %s" % (shown(path), shown(said))) from None


def _way_down(path: str, folder: str, above: Tuple[str, ...]) -> Tuple[str, ...]:
    """The real folders that links have led through. Raises StageError where it is a circle."""
    real = os.path.realpath(path)
    for passed in (*above, os.path.realpath(folder)):
        if (passed + "/").startswith(real.rstrip("/") + "/"):
            raise StageError("%s: a link back to a folder that it lies in" % shown(path))
    return (*above, real)
