"""What the readers of archives have in common: a member, and the error of a damaged archive."""

from __future__ import annotations

from typing import Any, NamedTuple


class ArchiveError(Exception):
    """What is wrong with an archive, without its name, and what to do about it."""

    def __init__(self, what: str, hint: str = "copy or pack it again") -> None:
        super().__init__(what)
        self.hint = hint


def not_an_archive(kind: str, start: bytes) -> ArchiveError:
    """The error for a file of another kind, such as a text or a pointer of git-lfs."""
    shown = start[:40].decode("utf-8", "backslashreplace").split("\n")[0]
    what = "is no %s archive, or damaged at its start: it starts with %r" % (kind, shown)
    return ArchiveError(what, "put the archive itself there, or leave unpack out")


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
