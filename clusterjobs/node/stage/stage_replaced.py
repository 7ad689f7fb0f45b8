"""Which files of a target a commit replaces, and whether somebody has changed them since.

It only compares and names them; it changes nothing.
"""

from __future__ import annotations

import os
from typing import Any, Collection, Dict, List

from stage_list import Listing, path_of
from stage_log import plural, printable

_SHOWN = 20  # names in a line of the log
_NEWER = "replaced by the source's"
_CHANGED = "replaced, although changed in the target since staged"
_NOT_STAGED = "overwritten, although not staged by a job (overwrite: true)"


def replaced_files(
    target: str, copy: str, listing: Listing, staged: Dict[str, Any], unstaged: Collection[str]
) -> Dict[str, List[str]]:
    """The names by the reason of their replacement. `unstaged`: those that were not staged."""
    found: Dict[str, List[str]] = {_NEWER: [], _CHANGED: [], _NOT_STAGED: sorted(unstaged)}
    for name, row in staged["files"].items():
        is_replaced = name in listing.files and os.path.lexists(path_of(copy, name))
        if is_replaced and os.path.lexists(path_of(target, name)):
            # An interrupted commit has no rows: nothing is known about changes.
            is_changed = row is not None and not is_as_staged(path_of(target, name), row)
            found[_CHANGED if is_changed else _NEWER].append(name)
    for name, link in staged["links"].items():
        now = link_of(path_of(target, name))
        if name in listing.links and now not in (None, listing.links[name]):
            found[_NEWER if now == link else _CHANGED].append(name)
    return {why: names for why, names in found.items() if names}


def is_as_staged(path: str, row: Any) -> bool:
    """Whether a file is as its row says; without a row it may have been changed."""
    try:
        now = os.lstat(path)
    except OSError:
        return False
    return row is not None and [now.st_size, now.st_mtime_ns, now.st_ctime_ns] == [
        row[0],
        *row[4:6],
    ]


def link_of(path: str) -> Any:
    """Where a link leads; None if it is none."""
    return os.readlink(path) if os.path.islink(path) else None


def listed(names: Collection[str]) -> str:
    """The first names, and how many there are."""
    shown = ", ".join(printable(name or "the target") for name in sorted(names)[:_SHOWN])
    return "%s (%s)" % (shown, plural(len(names), "file"))
