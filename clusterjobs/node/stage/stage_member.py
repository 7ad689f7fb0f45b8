"""What the readers of archives have in common: a member, and the error of a damaged archive."""

from __future__ import annotations

from typing import Any, NamedTuple


class ArchiveError(Exception):
    """What is wrong with an archive, without its name."""


class Member(NamedTuple):
    """A member of an archive. `kind`: folder, file, link, hard link, sparse file or device.

    `content` has `read(size)`, and gives the `size` bytes of a file. `mtime` is in nanoseconds.
    """

    kind: str
    name: str
    mode: int
    mtime: int
    size: int = 0
    content: Any = None
    link: str = ""  # the target of a link
