"""What the attempts of a job leave: their records, and the newest checkpoint.

It reads a bounded part of every file, since a disk may hold anything. It never writes.
`clusterjobs status` reads the records by it, too.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from typing import Any, Dict, List, Optional

MAX_CHECKPOINT = 200  # characters of a checkpoint's name in a record
MAX_LINE = 1024  # bytes of a marker that are read
MAX_RECORDS = 1 << 20  # bytes of records that are read, the last ones: thousands of attempts

Record = Dict[str, Any]


def read_records(text: str) -> List[Record]:
    """The records of attempts.jsonl in the order of writing, without truncated lines."""
    records = []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and isinstance(record.get("attempt"), int):
            records.append({**record, "reason": str(record.get("reason", ""))})
    return records


def read_end(path: str) -> str:
    """The last lines of a file of records, MAX_RECORDS bytes at most.

    Raises OSError for anything but a regular file: another user may have planted it.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_RECORDS))
        content = file.read(MAX_RECORDS)
    if size > MAX_RECORDS:
        content = content.partition(b"\n")[2]  # the first line is cut
    return content.decode(errors="replace")


def latest_by_attempt(records: List[Record]) -> List[Record]:
    """The last record of each attempt, in the order of the attempts."""
    latest = {record["attempt"]: record for record in records}
    return [latest[number] for number in sorted(latest)]


def newest_checkpoint(folder: Optional[str], marker: Optional[str]) -> str:
    """An identifier of the newest checkpoint, "" if there is none.

    The first line of the marker; without one, time and name of the newest entry of the folder that
    is not hidden.
    """
    text = first_line(marker) if marker else _newest_entry(folder) if folder else ""
    text = text[-MAX_CHECKPOINT:]  # the paths of checkpoints differ at the end
    return "".join(c if c.isprintable() and c not in '"\\' else "_" for c in text)


def _newest_entry(folder: str) -> str:
    try:
        entries = [one for one in os.scandir(folder) if not one.name.startswith(".")]
        found = [(_modified(entry), entry.name) for entry in entries]
    except OSError:
        return ""
    newest, name = max(found, default=(0, ""))
    if not name:
        return ""
    seconds, fraction = divmod(newest, 10**9)
    return f"{time.strftime('%Y-%m-%d+%H:%M:%S', time.localtime(seconds))}.{fraction:09} {name}"


def _modified(entry: Any) -> int:
    try:
        return int(entry.stat(follow_symlinks=False).st_mtime_ns)
    except OSError:  # just removed
        return 0


def first_line(path: str) -> str:
    """The first line, or its beginning; "" if it is no regular file: nobody may write to a pipe."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            return file.readline(MAX_LINE).decode(errors="replace").strip()
    except OSError:
        return ""
