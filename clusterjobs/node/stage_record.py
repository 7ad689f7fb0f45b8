"""What is written down beside a target: what was staged, and what an unfinished copy has already.

All of it is in the hidden folder `.<name>.stage` beside the target, and the copy grows there too,
so that nothing half done ever has the target's name. The record is written last, and whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any, Dict, Iterable, List, Optional, Tuple

from stage_files import Entry, scan
from stage_log import StageError, failure

VERSION = 1
Sums = Dict[str, List[int]]
Block = Tuple[str, int, int, int]  # name, offset, size and time of the original


class Place:
    """The target, and the hidden folder beside it."""

    def __init__(self, target: str) -> None:
        self.target = os.path.realpath(target)
        parent, name = os.path.split(self.target)
        if os.path.ismount(self.target):
            raise StageError("%s is a mount point: stage into a folder below it" % self.target)
        if len(os.fsencode(name)) > 240:  # a file's name has at most 255 bytes
            name = hashlib.sha1(os.fsencode(name)).hexdigest()
        self.folder = os.path.join(parent, ".%s.stage" % name)
        self.copy = os.path.join(self.folder, "copy")
        self.lock = os.path.join(self.folder, "lock")
        self._record = os.path.join(self.folder, "record.json")
        self._journal = os.path.join(self.folder, "journal")

    def load_record(self) -> Optional[Dict[str, Any]]:
        """What was staged and is complete, or None."""
        try:
            with open(self._record) as file:
                record = json.load(file)
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("version") == VERSION else None

    def forget_record(self) -> None:
        """From here on the target is not complete."""
        try:
            os.unlink(self._record)
        except FileNotFoundError:
            return
        _sync_folder(self.folder)

    def write_record(self, record: Dict[str, Any]) -> None:
        """The last step: whole or not at all, and after it nothing is left of the copying."""
        new = self._record + ".new"
        with open(new, "w") as file:
            file.write(json.dumps(dict(record, version=VERSION), separators=(",", ":")))
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, self._record)
        _sync_folder(self.folder)
        self.clear()

    def clear(self) -> None:
        """Remove what an unfinished copy has left."""
        for path in (self._journal, os.path.join(self.folder, "archive")):
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        remove(self.copy)

    def append_journal(self, rows: Iterable[Tuple[str, int, int, int, int]]) -> None:
        """Blocks that are copied, so that they need not be copied again."""
        try:
            with open(self._journal, "a") as file:
                file.write("\n" + json.dumps(list(rows)))  # a line that was cut off stands alone
        except OSError as error:
            raise failure(self._journal, error) from None

    def load_journal(self) -> Dict[Block, int]:
        """The sums of the blocks that a copy has by now; they are held against what it has."""
        found: Dict[Block, int] = {}
        try:
            with open(self._journal) as file:
                for line in file:
                    for name, offset, size, mtime, crc in _rows_in(line):
                        found[name, offset, size, mtime] = crc
        except OSError:
            pass
        return found


def _rows_in(line: str) -> List[List[Any]]:
    try:
        rows: List[List[Any]] = json.loads(line)
    except ValueError:  # empty, or cut off when its writer was killed
        return []
    return rows


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError:  # some file systems sync files only
        pass
    finally:
        os.close(folder)


def remove(path: str) -> None:
    """A file or a whole folder, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def rows_of(listing: Dict[str, Entry]) -> Dict[str, List[Any]]:
    """A listing as JSON keeps it."""
    return {
        name: [one.kind, one.size, one.mtime, one.mode, one.origin if one.kind == "link" else ""]
        for name, one in listing.items()
    }


def compare(target: str, record: Dict[str, Any]) -> Tuple[List[str], List[str]]:
    """The files that are not as they were staged, and those that were touched and may be.

    The time of the last change (ctime) cannot be set: whoever writes to a file moves it, even if
    size and time of the content are put back. What no file system call has changed is not read.
    """
    try:
        there = scan(target, follow=False)
    except StageError:
        return list(record["files"]), []
    wrong, touched = [], []
    for name, (size, mtime, ctime, _) in record["files"].items():
        one = there.get(name)
        if one is None or one.kind != "file" or one.size != size or one.mtime != mtime:
            wrong.append(name)
        elif one.ctime != ctime:
            touched.append(name)
    for name, kind in record["others"].items():
        if name not in there or there[name].kind != kind:
            wrong.append(name)
    return wrong, touched
