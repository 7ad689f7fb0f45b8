"""Which names and links of an archive's members stay inside the target; all others are refused."""

from __future__ import annotations

import os
from typing import Dict

from stage_list import path_of
from stage_log import SourceError, printable
from stage_member import Member

ALSO_FOLDER = "is in the archive as a folder, too"


def make_links(links: Dict[str, str], source: str, copy: str) -> None:
    """Refuse links that lead out through other links: before each is made, and when all exist."""
    for name, link in links.items():
        path = path_of(copy, name)
        parent = os.path.dirname(path)
        if not _is_below(parent, copy):
            raise refused(source, name, "leads out of the target through a link")
        if os.path.lexists(path):
            raise refused(source, name, ALSO_FOLDER)
        os.makedirs(parent, exist_ok=True)
        os.symlink(link, path)
    for name in links:
        if not _is_below(path_of(copy, name), copy):
            raise refused(source, name, "is a link that leads out of the target through another")


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(real, ""))


def safe_name(member: Member, source: str) -> str:
    """The normal form of a member's name; only a folder may be the target itself."""
    name = member.name
    normal = os.path.normpath(name)
    if normal.startswith(("/", "../")) or normal == "..":
        raise refused(source, name, "leads out of the target")
    if not name or "\0" in name or (normal == "." and member.kind != "folder"):
        raise refused(source, name, "has no possible name")
    return "" if normal == "." else normal


def refused(
    source: str, name: str, why: str, hint: str = "pack the archive again without it"
) -> SourceError:
    """The error for a member that is never written."""
    return SourceError("%s: member %s %s: %s" % (printable(source), printable(name), why, hint))


def escapes(name: str, link: str) -> bool:
    """Whether a link leads out of the target, without regard to other links."""
    end = os.path.normpath(os.path.join(os.path.dirname(name), link))
    return link.startswith("/") or end.split("/")[0] == ".."
