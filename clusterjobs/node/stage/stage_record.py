"""The files beside a target: the record of a complete copy, and the journal of a partial one.

They are in the hidden folder `.<name>.stage` beside the target, where the copy is made, so that the
target never has partial data. The record is written last, and atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from stage_list import File, Listing, scan
from stage_log import StageError, os_failure

VERSION = 2
Checksums = Dict[str, List[int]]  # of each file, the CRC-32 of its blocks
Block = Tuple[str, int, int, int]  # name, offset; size and time of the source file


class SmallFileRows(NamedTuple):
    """Small files, and their rows of the record as they were right after they were copied."""

    names: Sequence[str]
    rows: List[str]

    def checksums(self) -> Checksums:
        rows = json.loads("{%s}" % ",".join(self.rows))
        return {name: row[-1] for name, row in rows.items()}


class StagedCopy(NamedTuple):
    """The copy beside the target, with the files that the target has already."""

    listing: Listing  # what the target must contain
    checksums: Checksums  # of all files but the small ones
    small: SmallFileRows
    state: Any  # the state of the source, where the rows of the files do not say it


class StagePaths:
    """The target, and the hidden folder beside it with its files."""

    def __init__(self, target: str) -> None:
        self.target = os.path.realpath(target)
        parent, name = os.path.split(self.target)
        if os.path.ismount(self.target):
            raise StageError("%s is a mount point: stage into a folder below it" % self.target)
        if len(os.fsencode(name)) > 240:  # a file name has at most 255 bytes
            name = hashlib.sha1(os.fsencode(name)).hexdigest()
        self.folder = os.path.join(parent, ".%s.stage" % name)
        self.copy = os.path.join(self.folder, "copy")
        self.lock = os.path.join(self.folder, "lock")
        self._record = os.path.join(self.folder, "record.json")
        self._journal = os.path.join(self.folder, "journal")

    def load_record(self) -> Optional[Dict[str, Any]]:
        """The record of a complete copy, or None."""
        try:
            with open(self._record) as file:
                record = json.load(file)
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("version") == VERSION else None

    def delete_record(self) -> None:
        """From now on the target counts as incomplete."""
        try:
            os.unlink(self._record)
        except FileNotFoundError:
            return
        _sync_folder(self.folder)

    def write_record(self, record: Dict[str, Any], rows: Iterable[str]) -> None:
        """Write it atomically, then remove what is left of the copying.

        `rows` are those of the files, as JSON without the braces.
        """
        new = self._record + ".new"
        head = json.dumps(dict(record, version=VERSION))
        with open(new, "w") as file:
            file.write('%s,"files":{%s}}' % (head[:-1], ",".join(rows)))
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, self._record)
        _sync_folder(self.folder)
        self.remove_partial_copy()

    def start_copy(self, identity: List[Any]) -> None:
        """Keep the partial copy of an earlier attempt only if it had the same source."""
        path = os.path.join(self.folder, "source")
        try:
            with open(path) as file:
                if json.load(file) == identity:
                    return
        except (OSError, ValueError):
            pass
        self.remove_partial_copy()
        with open(path + ".new", "w") as file:
            file.write(json.dumps(identity))
        os.rename(path + ".new", path)

    def remove_partial_copy(self) -> None:
        for name in ("source", "journal", "archive", "commands", "tool.out"):
            path = os.path.join(self.folder, name)
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
        remove(self.copy)

    def append_journal(self, line: str) -> None:
        """Add what has been copied: a JSON object of small files and rows, or a list of blocks.

        A block is a list of name, offset, size and time of the source file, checksum.
        """
        try:
            with open(self._journal, "a") as file:
                file.write("\n" + line)  # on a new line even after a truncated one
        except OSError as error:
            raise os_failure(self._journal, error) from None

    def load_journal(self) -> Dict[Block, int]:
        """The checksums of the copied blocks; the copy is compared with them before it is used."""
        found: Dict[Block, int] = {}
        try:
            with open(self._journal) as file:
                for line in file:
                    for name, offset, size, mtime, crc in _journal_entries(line):
                        found[name, offset, size, mtime] = crc
        except OSError:
            pass
        return found


def _journal_entries(line: str) -> List[Any]:
    try:
        rows = json.loads(line)
    except ValueError:  # empty, or truncated when its writer was killed
        return []
    if isinstance(rows, dict):
        return [(name, 0, row[0], row[1], row[-1][0]) for name, row in rows.items()]
    return list(rows)


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    except OSError:  # some file systems sync only files
        pass
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


def source_state(source: Listing) -> List[Any]:
    """The state of a source as a record keeps it."""
    files = {name: list(row[:3]) for name, row in source.files.items()}
    return [files, source.folders, source.links]


def matches_record(source: Listing, record: Dict[str, Any]) -> bool:
    """Whether sizes, times and permissions of a folder are still those that were copied."""
    if source.folders != record["folders"] or source.links != record["links"]:
        return False
    now = source.files
    return len(now) == len(record["files"]) and all(
        is_same_file(now.get(name), row) for name, row in record["files"].items()
    )


def is_same_file(now: Optional[File], row: List[Any]) -> bool:
    """Whether a source file is still the one of a row of the record."""
    return now is not None and now[:3] == (row[0], row[1], row[2])


def find_changes(target: str, record: Dict[str, Any]) -> Tuple[List[str], List[str]]:
    """The names that differ from the record, and the files that were touched and may differ.

    The time of change (ctime) cannot be set: every write moves it, even if size and time of content
    are put back. A change that no system call has made is not found.
    """
    try:
        now = scan(target, follow=False)
    except StageError:
        return list(record["files"]), []
    wrong, touched = [], []
    for name, (size, _, _, mtime, ctime, _) in record["files"].items():
        file = now.files.get(name)
        if file is None or file[0] != size or file[1] != mtime:
            wrong.append(name)
        elif file[3] != ctime:
            touched.append(name)
    wrong += record["folders"].keys() - now.folders.keys()
    wrong += record["links"].keys() - now.links.keys()
    return wrong, touched


def unchanged_files(target: str, record: Dict[str, Any]) -> Dict[str, List[Any]]:
    """The rows of the target's files that are exactly as recorded."""
    wrong, touched = find_changes(target, record)
    changed = {*wrong, *touched}
    return {name: row for name, row in record["files"].items() if name not in changed}
