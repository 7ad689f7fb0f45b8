"""Compare a source and a target with the record of an earlier copy."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from stage_list import File, Listing, scan
from stage_log import StageError


def matches_record(source: Listing, record: Dict[str, Any]) -> bool:
    """Whether sizes, times and permissions of a folder are still those that were copied.

    The time of change (ctime) is among them: it moves with every write, even if size and time of
    content are put back. The inode is not, since some network file systems number files anew.
    """
    if source.folders != record["folders"] or source.links != record["links"]:
        return False
    now = source.files
    return len(now) == len(record["files"]) and all(
        is_same_file(now.get(name), row) for name, row in record["files"].items()
    )


def is_same_file(now: Optional[File], row: List[Any]) -> bool:
    """Whether a source file is still the one of a row of the record."""
    return now is not None and now == tuple(row[:4])


class Changes(NamedTuple):
    """How a target differs from its record."""

    wrong: List[str]  # files, folders and links that differ
    touched: List[str]  # files that may differ: only their time of change does
    unstaged: List[str]  # files and links that the record does not have


def find_changes(target: str, record: Dict[str, Any]) -> Changes:
    """Compare a target with its record. A change that no system call has made is not found."""
    try:
        now = scan(target, follow=False)
    except StageError:
        return Changes(list(record["files"]), [], [])
    wrong, touched = [], []
    for name, (size, _, _, _, mtime, ctime, _) in record["files"].items():
        file = now.files.get(name)
        if file is None or file[0] != size or file[1] != mtime:
            wrong.append(name)
        elif file[3] != ctime:
            touched.append(name)
    wrong += record["folders"].keys() - now.folders.keys()
    wrong += record["links"].keys() - now.links.keys()
    return Changes(wrong, touched, unstaged_names(now, record["files"], record["links"]))


def unstaged_names(target: Listing, files: Iterable[str], links: Iterable[str]) -> List[str]:
    """The files and links of a target that are not among those given."""
    return sorted((target.files.keys() | target.links.keys()) - {*files, *links})


def unchanged_files(target: str, record: Dict[str, Any]) -> Dict[str, List[Any]]:
    """The rows of the target's files that are exactly as recorded."""
    now = find_changes(target, record)
    changed = {*now.wrong, *now.touched}
    return {name: row for name, row in record["files"].items() if name not in changed}
