"""What is written down beside a target: what was staged, and what an unfinished copy has already.

All of it is in the hidden folder `.<name>.stage` beside the target, and the copy grows there too,
so that nothing half done ever has the target's name. The record is written last, and whole.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from stage_list import File, Listing, scan
from stage_log import StageError, failure

VERSION = 2
Sums = Dict[str, List[int]]
Block = Tuple[str, int, int, int]  # name, offset, size and time of the original


class Seen(NamedTuple):
    """Small files, and their rows of the record as they were right after they were copied."""

    names: Sequence[str]
    rows: List[str]

    def sums(self) -> Sums:
        rows = json.loads("{%s}" % ",".join(self.rows))
        return {name: row[-1] for name, row in rows.items()}


class Place:
    """The target, and the hidden folder beside it."""

    def __init__(self, target: str) -> None:
        self.target = os.path.realpath(target)
        parent, name = os.path.split(self.target)
        if os.path.ismount(self.target):
            raise StageError("%s is a mount point: stage into a folder below it" % self.target)
        if len(os.fsencode(name)) > 240:  # a file's name has at most 255 bytes
            import hashlib

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

    def write_record(self, record: Dict[str, Any], rows: Iterable[str]) -> None:
        """The last step: whole or not at all, and after it nothing is left of the copying.

        `rows`: of its files, as `row_of` makes them.
        """
        new = self._record + ".new"
        head = json.dumps(dict(record, version=VERSION))
        with open(new, "w") as file:
            file.write('%s,"files":{%s}}' % (head[:-1], ",".join(rows)))
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, self._record)
        _sync_folder(self.folder)
        self.clear()

    def begin(self, identity: List[Any]) -> None:
        """What an attempt with another source has left is of no use to this one."""
        path = os.path.join(self.folder, "source")
        try:
            with open(path) as file:
                if json.load(file) == identity:
                    return
        except (OSError, ValueError):
            pass
        self.clear()
        with open(path + ".new", "w") as file:
            file.write(json.dumps(identity))
        os.rename(path + ".new", path)

    def clear(self) -> None:
        """Remove what an unfinished copy has left."""
        for name in ("source", "journal", "archive", "commands", "tool.out"):
            path = os.path.join(self.folder, name)
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        remove(self.copy)

    def append_journal(self, line: str) -> None:
        """What is copied, so that it need not be again: rows of small files by name, or of blocks.

        Of a block: name, offset, size and time of the original, sum.
        """
        try:
            with open(self._journal, "a") as file:
                file.write("\n" + line)  # one that was cut off stands alone
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


def _rows_in(line: str) -> List[Any]:
    try:
        rows = json.loads(line)
    except ValueError:  # empty, or cut off when its writer was killed
        return []
    if isinstance(rows, dict):
        return [(name, 0, row[0], row[1], row[-1][0]) for name, row in rows.items()]
    return list(rows)


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
        import shutil

        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def state_of(source: Listing) -> List[Any]:
    """What a source was, as a record says it."""
    files = {name: list(row[:3]) for name, row in source.files.items()}
    return [files, source.folders, source.links]


def is_as_recorded(source: Listing, record: Dict[str, Any]) -> bool:
    """Whether a folder is still what was copied: sizes, times, permissions."""
    if source.folders != record["folders"] or source.links != record["links"]:
        return False
    now = source.files
    return len(now) == len(record["files"]) and all(
        is_same_source(now.get(name), row) for name, row in record["files"].items()
    )


def is_same_source(now: Optional[File], row: List[Any]) -> bool:
    """Whether a file is what a row of the record says of its original."""
    return now is not None and now[:3] == (row[0], row[1], row[2])


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
    for name, (size, _, _, mtime, ctime, _) in record["files"].items():
        one = there.files.get(name)
        if one is None or one[0] != size or one[1] != mtime:
            wrong.append(name)
        elif one[3] != ctime:
            touched.append(name)
    wrong += record["folders"].keys() - there.folders.keys()
    wrong += record["links"].keys() - there.links.keys()
    return wrong, touched
