"""The files beside a target: the record of a complete copy, and the journal of a partial one.

They are in the hidden folder `.<name>.stage` beside the target, where the copy is made, so that the
target never has partial data. The record is written last, and atomically.
"""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import json
import os
import shutil
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from safe_folder import check_path, check_private, make_private
from stage_list import Listing
from stage_log import SourceError, os_failure, printable

VERSION = 3
Checksums = Dict[str, List[int]]  # of each file, the CRC-32 of its blocks
# Checksums by the name and offset of a block, and size, mtime and ctime of the source file.
Journal = Dict[Tuple[str, int, int, int, int], int]
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class StagedCopy(NamedTuple):
    """The copy beside the target, with the files that the target has already."""

    listing: Listing  # what the target must contain
    checksums: Checksums  # of objects, with which the target can be compared later
    state: Any = None  # the state of the source, where the rows of the files do not say it


class StagePaths:
    """The target, and the hidden folder beside it with its files."""

    def __init__(self, target: str) -> None:
        self._given = os.path.join(os.getcwd(), target)
        self.target = os.path.realpath(target)
        parent, name = os.path.split(self.target)
        if os.path.ismount(self.target):
            raise SourceError("%s is a mount point: stage into a folder below it" % self.target)
        if len(os.fsencode(name)) > 240:  # a file name has at most 255 bytes
            name = hashlib.sha1(os.fsencode(name)).hexdigest()
        self.folder = os.path.join(parent, ".%s.stage" % name)
        self.copy, self.lock, self.archive = map(self.beside, ("copy", "lock", "archive"))
        self._record, self._commit = map(self.beside, ("record.json", "commit.json"))

    def beside(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def check(self) -> None:
        """Raises SourceError if another user could change the target or the files beside it."""
        check_path(self._given)
        check_private(self.folder)

    def check_apart(self, source: str) -> None:
        """Raises SourceError unless source and target lie outside of each other."""
        if source == self.target:
            raise SourceError("%s is its own target" % printable(source))
        for inner, outer in ((source, self.target), (self.target, source)):
            if inner.startswith(outer.rstrip("/") + "/"):
                raise SourceError("%s is inside %s" % (printable(inner), printable(outer)))

    def make_folder(self) -> None:
        """Create the folder beside the target. Raises SourceError as `check` does."""
        os.makedirs(os.path.dirname(self.folder), exist_ok=True)
        make_private(self.folder)
        self.check()

    def load_record(self) -> Optional[Dict[str, Any]]:
        """The record of a complete copy, or None."""
        return _load(self._record)

    def load_earlier(self) -> Optional[Dict[str, Any]]:
        """The record, or what a commit that did not end may have written to the target."""
        return _load(self._record) or _load(self._commit)

    def start_commit(self, names: Dict[str, Any]) -> None:
        """From now on the target counts as incomplete, and `names` in it as staged."""
        _write_synced(self._commit, json.dumps(dict(names, version=VERSION)))
        remove(self._record)
        _sync_folder(self.folder)

    def write_record(self, record: Dict[str, Any]) -> None:
        """Write it atomically, then remove what is left of the copying."""
        _write_synced(self._record, json.dumps(dict(record, version=VERSION)))
        _sync_folder(self.folder)
        remove(self._commit)
        self.remove_partial_copy()

    def remove_unused(self) -> None:
        """Remove what no later attempt could use."""
        names = (self._record, self._commit, self.archive)
        if not any(map(os.path.lexists, names)) and not any(f for _, _, f in os.walk(self.copy)):
            self.remove_partial_copy()

    def remove_empty_folder(self) -> None:
        """Remove the folder beside the target if nothing is left in it."""
        with contextlib.suppress(OSError):  # not empty, or removed already
            os.rmdir(self.folder)

    def start_copy(self, identity: List[Any]) -> None:
        """Keep the partial copy of an earlier attempt only if it had the same source."""
        path = self.beside("source")
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            if json.load(file) == identity:
                return
        self.remove_partial_copy()
        _write_synced(path, json.dumps(identity))

    def remove_partial_copy(self) -> None:
        for name in ("source", "journal", "archive", "commands", "tool.out", "tool.log", "copy"):
            remove(self.beside(name))

    def append_journal(self, blocks: Iterable[Any]) -> None:
        """Add blocks that have been copied, each with its checksum at the end."""
        path = self.beside("journal")
        try:
            with open(os.open(path, _APPEND, 0o644), "w") as file:
                file.write("\n" + json.dumps(blocks))  # on a new line even after a truncated one
        except OSError as error:
            raise os_failure(path, error) from None

    def load_journal(self) -> Journal:
        """The checksums of the copied blocks; the copy is compared with them before it is used."""
        found: Journal = {}
        with contextlib.suppress(OSError), open(self.beside("journal")) as file:
            for line in file:
                with contextlib.suppress(ValueError):  # truncated when its writer was killed
                    found.update((tuple(block), crc) for *block, crc in json.loads(line))
        return found


def _load(path: str) -> Optional[Dict[str, Any]]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("version") == VERSION else None


def _write_synced(path: str, text: str) -> None:
    """Replace a file atomically; it is on the disk afterwards."""
    remove(path + ".new")
    with open(path + ".new", "x") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems sync only files
            os.fsync(folder)
    finally:
        os.close(folder)


def remove(path: str) -> None:
    """Remove a file or a whole folder, if it exists."""
    if os.path.isdir(path) and not os.path.islink(path):
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def is_same_file(path: str, other: str) -> bool:
    """Whether two files have the same contents; a link is no file."""
    is_file = os.path.isfile(other) and not os.path.islink(other)
    return is_file and filecmp.cmp(path, other, shallow=False)
